# frozen_string_literal: true

require "monitor"
require_relative "flowd/input"
require_relative "flowd/link"
require_relative "flowd/message"
require_relative "flowd/steps"

# Write a step, an input or an output of flowd:
#
#   require "flowd"
#
#   Flowd.step do |msg|
#     msg.doc["score"] = msg.doc["text"].size
#   end
#
# The program serves flowd once it has been read to its end. Without flowd, for example in a test, it does nothing.
module Flowd
  Handler = Struct.new(:target, :batch, :concurrency)
  private_constant :Handler

  @handlers, @setups = {}, []

  class << self
    # Makes a block, or a class with a method call, the step of this program. It gets a message, or with batch an array of
    # messages. With concurrency, it runs in so many threads.
    def step(target = nil, batch: false, concurrency: 1, &block)
      register("step", target || block, batch, concurrency)
    end

    # Makes a block or a class the output of this program. A message is written when the block has returned.
    def output(target = nil, batch: false, concurrency: 1, &block)
      register("output", target || block, batch, concurrency)
    end

    # Makes a block or a class the input of this program. It gets a Flowd::Input, and emits messages.
    def input(target = nil, &block)
      register("input", target || block, false, 1)
    end

    # Makes a block get the fate of each message of the input: message, fate, error. It runs in another thread than the input.
    def settled(&block)
      register("settled", block, false, 1)
    end

    # Makes a block prepare the work. It gets the config, once, before the first message.
    def setup(&block)
      @setups << block
    end

    # Log lines with fields: Flowd.log.info("loaded", model: "small"). Outside of flowd they go to standard error.
    def log
      Log
    end

    # Metrics, which flowd exports. Outside of flowd they go nowhere.
    def metric
      Metric
    end

    # Says whether the program can work. While it can't, the pipeline is not ready. It also shows that the program is alive.
    def state(ready, reason = "")
      tell({ type: "state", ready: ready ? true : false, reason: Message.utf8(reason) })
    end

    # @private
    attr_reader :link

    # Calls the block after SIGTERM. A child made by fork inherits that, and ends.
    # @private
    def on_term
      pid = Process.pid
      trap("TERM") do
        raise SignalException, "TERM" if Process.pid != pid

        yield
      end
    end

    # @private
    def tell(header)
      link = @link
      link ? link.send_frame(header) : warn(JSON.generate(header))
    end

    private

    def register(kind, target, batch, concurrency)
      @handlers[kind] = Handler.new(target, batch, concurrency)
      start_at_exit unless @starting
      target
    end

    # Hooks run in the main thread, after the program was read. A child made by fork inherits them.
    def start_at_exit
      return unless ENV.delete("FLOWD_PROGRAM_PROTOCOL")

      @starting = true
      pid = Process.pid
      trap("INT") {} # a terminal sends it to all: flowd decides
      $stdout.sync = true
      reader, writer = [3, 4].map { |fd| IO.for_fd(fd, autoclose: false).tap { |io| io.close_on_exec = true } }
      at_exit { exit serve(Link.new(reader, writer)) if $!.nil? && Process.pid == pid }
    end

    def serve(link)
      @link = link
      hello, = link.receive
      begin
        server = prepare(hello)
      rescue *FAILURES => e
        warn e.full_message(highlight: false) unless e.is_a?(SettingError)
        error = { text: Message.describe(e)[:text] }
        error[:setting] = Message.utf8(e.setting) if e.is_a?(SettingError)
        link.send_frame({ type: "ready", version: 1, error: error })
        return 1
      end
      server.serve({ type: "ready", version: 1 })
    rescue Stopped # a second signal
      0
    end

    def prepare(hello)
      kind, config = hello.values_at("kind", "config")
      handler = @handlers[kind]
      unless handler
        has = (@handlers.keys - ["settled"]).join(" and ")
        raise Error, "#{$PROGRAM_NAME} has no Flowd.#{kind} (it has #{has.empty? ? "nothing" : has})"
      end
      @setups.each { |setup| setup.call(config) }
      target = handler.target
      target = target.new(config) if target.is_a?(Class)
      if kind == "input"
        settled = @handlers["settled"]&.target || (target.method(:settled) if target.respond_to?(:settled))
        return Input.new(@link, hello, target, settled)
      end
      Steps.new(@link, target, writes: kind == "output", batch: handler.batch, concurrency: handler.concurrency,
                               limit: hello["limits"]["body"])
    end
  end

  # @private
  module Log
    %i[debug info warn error].each do |level|
      define_singleton_method(level) do |text, **fields|
        begin
          JSON.generate(fields)
        rescue JSON::JSONError # NaN, bytes that are not UTF-8, or an object that contains itself
          fields = fields.transform_values { |value| Message.utf8(value.inspect) }
        end
        Flowd.tell({ type: "log", level: level, text: Message.utf8(text), fields: fields })
      end
    end
  end

  # @private
  module Metric
    class << self
      # Adds to a counter.
      def count(name, value = 1, **labels)
        Flowd.link&.count(name, check(name, value), texts(labels))
      end

      # Sets a gauge.
      def gauge(name, value, **labels)
        observe_as("gauge", name, value, labels)
      end

      # Adds a value to a histogram.
      def observe(name, value, **labels)
        observe_as("histogram", name, value, labels)
      end

      private

      def observe_as(kind, name, value, labels)
        Flowd.link&.send_frame({ type: "metric", name: name, kind: kind, value: check(name, value), labels: texts(labels) })
      end

      def check(name, value)
        raise ArgumentError, "metric #{name}: #{value} is not a number" unless value.is_a?(Numeric) && value.to_f.finite?

        value.is_a?(Integer) ? value : value.to_f
      end

      def texts(labels)
        labels.transform_values { |value| Message.utf8(value) }
      end
    end
  end
end
