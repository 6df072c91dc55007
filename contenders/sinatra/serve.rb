# Serves a page with Sinatra on Thin. Usage: serve.rb PORT

require "sinatra/base"
require "thin"

class Index < Sinatra::Base
  set :environment, :production
  get("/") { File.read("index.html") }
end

Thin::Logging.silent = true
Thin::Server.start("127.0.0.1", ARGV[0].to_i, Index)
