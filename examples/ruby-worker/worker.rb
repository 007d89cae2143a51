# frozen_string_literal: true

# A worker as Shoryuken and Sidekiq have them. It is an output: an order counts as done when perform has returned. What it
# raises decides whether flowd tries the order again or gives it up.
require_relative "../../sdk/ruby/lib/flowd" # or "flowd", after gem install flowd-sdk

class ConfirmationWorker
  def initialize(config)
    @spool = config.fetch("spool")
    raise Flowd::SettingError.new("spool", "there is no folder #{@spool}") unless Dir.exist?(@spool)
  end

  def call(msg)
    perform(msg.doc)
  rescue SystemCallError => e
    raise Flowd::Error.new(e.message, kind: "transient", after: 5) # the disk is full: try again
  end

  # Writes a mail. Its name comes from the order, so that an order that comes again does not lead to a second mail.
  def perform(order)
    raise Flowd::Error.new("the order has no e-mail address", kind: "rejected") unless order["email"]

    name = File.join(@spool, "#{Integer(order["id"])}.eml")
    File.write("#{name}.new", <<~MAIL)
      To: #{order["email"].delete("\r\n")}
      Subject: Your order #{order["id"]}

      Thank you, #{order["name"]}. You pay #{format("%.2f", order["total"])} EUR.
    MAIL
    File.rename("#{name}.new", name)
    Flowd.metric.count("confirmations_total")
  end
end

Flowd.output(ConfirmationWorker, concurrency: 5)
