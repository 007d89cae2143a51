require "flowd"

field = nil

Flowd.setup do |config| # called once: load a model, or connect to a database
  field = config["field"]
end

Flowd.step do |msg|
  msg.doc["length"] = msg.doc.fetch(field).length
end
