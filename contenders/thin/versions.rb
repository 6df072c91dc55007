# Prints the versions of Ruby and of the libraries in the arguments: thin, rack, sinatra.

require "thin"
require "rack"
require "sinatra/base"

puts "Ruby #{RUBY_VERSION}"
versions = { "thin" => Thin::VERSION::STRING, "rack" => Rack.release, "sinatra" => Sinatra::VERSION }
ARGV.each { |name| puts "#{name} #{versions.fetch(name)}" }
