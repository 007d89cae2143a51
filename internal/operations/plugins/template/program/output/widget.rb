require "flowd"

file = nil

Flowd.setup do |config| # called once: open a file, or connect to a database
  file = File.open(config["path"], "ab")
end

Flowd.output(batch: true) do |msgs|
  msgs.each { |msg| file.write(msg.payload, "\n") }
  file.flush
end
