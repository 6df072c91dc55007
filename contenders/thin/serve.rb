# Serves a page with Rack on Thin. Usage: serve.rb PORT

require "thin"

class Index
  def call(env)
    body = File.read("index.html")
    [200, { "Content-Type" => "text/html", "Content-Length" => body.bytesize.to_s, "Connection" => "close" }, [body]]
  end
end

Thin::Logging.silent = true
Thin::Server.start("127.0.0.1", ARGV[0].to_i, Index.new)
