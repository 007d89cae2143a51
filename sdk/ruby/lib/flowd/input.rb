# frozen_string_literal: true

require_relative "message"

module Flowd
  # Ends the block of an input, because no message is wanted any more. No "rescue => e" catches it.
  class Stopped < Exception; end # rubocop:disable Lint/InheritException

  # What the block of an input works with. It runs in the main thread, while another one reads frames.
  class Input
    SOON = 0.002 # seconds that a message waits for others
    MANY = 512 # messages that are worth a frame
    LARGE = 1 << 20 # and bytes
    POSITION = 64 << 10 # bytes of a position at most

    # config of the component, and position to continue after (nil: from the start).
    # instance: number of this process, from 0, among all instances of the component.
    attr_reader :config, :position, :name, :pipeline, :instance, :instances

    def initialize(link, hello, handler, settled)
      @config, @position, @name, @pipeline = hello.values_at("config", "position", "name", "pipeline")
      @instance, @instances = hello.values_at("instance", "instances")
      @link, @handler, @settled, @limit = link, handler, settled, hello["limits"]["body"]
      @lock = Monitor.new # guards the fields below, and keeps frames in order
      @changed = @lock.new_cond
      @credits = @number = @size = 0
      @pending = [] # payloads, and metadata and positions as JSON
      @unsettled = {} # messages by number
      @ended = @failed = @stopping = false
    end

    # Sends a message: bytes, text, anything else as JSON, or a Message. It waits while flowd accepts no more messages.
    def emit(value, meta: nil, position: nil, tag: nil)
      msg = value.is_a?(Message) ? value : Message.new(value, meta: meta, position: position, tag: tag)
      entry = [msg.payload, JSON.generate(msg.meta), JSON.generate(msg.position)]
      size = msg.payload.bytesize
      raise ArgumentError, "message has #{size} bytes, more than the limit of #{@limit}" if size > @limit
      raise ArgumentError, "position has #{entry[2].bytesize} bytes, more than #{POSITION}" if entry[2].bytesize > POSITION

      Thread.handle_interrupt(Stopped => :never) do
        @lock.synchronize do
          flush if @credits.zero? || @size + size > [@limit, LARGE].min || @pending.size >= MANY
          @changed.wait_until { @credits.positive? || @ended || @stopping }
          raise Stopped if @ended || @stopping

          @credits -= 1
          @number += 1
          @size += size
          @pending << entry
          @unsettled[@number] = msg if @settled
          @changed.broadcast if @pending.size == 1
        end
      end
      self
    end
    alias << emit

    # @private
    def serve(ready)
      @main = Thread.current
      Flowd.on_term { Thread.new { stop } } # a trap must not lock
      Thread.handle_interrupt(Stopped => :never) do
        @link.send_frame(ready)
        @reader = Thread.new { read }
        Thread.new { flush_soon }
        run
        @failed ? 1 : 0
      end
    end

    private

    def run
      begin
        Thread.handle_interrupt(Stopped => :immediate) { @handler.call(self) }
        finish
      rescue Stopped
        @lock.synchronize { flush }
      rescue *FAILURES => e
        finish(e)
      end
      Thread.handle_interrupt(Stopped => :immediate) { @reader.join } unless @failed || @stopping # fates may follow
    rescue Stopped
      nil
    end

    # Sends what waits, and that nothing follows.
    def finish(error = nil)
      @lock.synchronize do
        unless @ended && !(error && !@failed)
          @ended, @failed = true, !error.nil?
          flush
          @link.send_frame(error ? { type: "error", error: Message.describe(error) } : { type: "end" })
        end
        @changed.broadcast
      end
    end

    def flush
      return if @pending.empty?

      payloads, meta, positions = @pending.transpose
      sizes = payloads.map(&:bytesize)
      @pending, @size = [], 0
      header = %({"type":"messages","sizes":#{sizes},"meta":[#{meta.join(",")}],"positions":[#{positions.join(",")}]})
      @link.send_frame(header, payloads)
    end

    def flush_soon
      loop do
        @lock.synchronize { @changed.wait_while { @pending.empty? } }
        sleep SOON
        @lock.synchronize { flush }
      end
    rescue Closed
      nil # the other thread notices it, too
    end

    def read
      loop do
        header, = @link.receive
        case header["type"]
        when "credit"
          @lock.synchronize do
            @credits += header["messages"]
            @changed.broadcast
          end
        when "drain" then finish
        when "fates" then settle(header) if @settled
        end
      end
    rescue Closed
      stop
      exit_soon
    rescue *FAILURES => e
      finish(e)
      stop
      exit_soon
    end

    # Ends the block, which may wait for a message that never comes.
    def stop
      @lock.synchronize do
        @stopping = true
        @changed.broadcast
      end
      @main.raise(Stopped)
    end

    # The block may be in code that can't be interrupted.
    def exit_soon
      Thread.new do
        sleep 2
        exit!(@failed ? 1 : 0)
      end
    end

    def settle(header)
      header["numbers"].each_with_index do |number, i|
        msg = @lock.synchronize { @unsettled.delete(number) } or next
        error = header.dig("errors", i)
        error &&= Error.new(error["text"], kind: error["class"], after: error["after"])
        @settled.call(msg, header["fates"][i], error)
      end
    end
  end
end
