# frozen_string_literal: true

require "json"
require_relative "link"

module Flowd
  # Fails a message. kind says whether a retry makes sense: "permanent" (the default of a step), "transient" (the default of
  # an output), "rejected", "decode", "timeout" or "auth". after is the least number of seconds before a retry. detail is for
  # the dead letter; without one, it is the backtrace of the cause.
  class Error < StandardError
    attr_reader :kind, :after, :detail

    def initialize(text, kind: nil, after: nil, detail: nil)
      super(text)
      @kind, @after, @detail = kind, after && Float(after), detail
    end
  end

  # Says at the start that a field of the component's config is wrong.
  class SettingError < StandardError
    attr_reader :setting

    def initialize(setting, text)
      super(text)
      @setting = setting
    end
  end

  # What fails a message if a handler raises it.
  FAILURES = [StandardError, ScriptError, SystemStackError].freeze

  # A message that flowd has sent, or one that an input or a test has made.
  class Message
    # attempt: how often the source has delivered the message, from 1; 0: unknown.
    # position: any JSON value, which flowd keeps. tag: any object, which the program keeps. Both are for inputs.
    # error: for an output that is a dead letter, why the message failed.
    # deadline: when flowd gives the message up, on the monotonic clock, or nil. key: of the batch, if it has one.
    attr_reader :attempt, :position, :tag, :error, :deadline, :key

    def initialize(value = "", meta: nil, attempt: 1, position: nil, tag: nil, error: nil, deadline: nil, key: nil)
      @sent = @payload = Message.encode(value)
      @meta, @attempt, @position, @tag, @error, @deadline, @key = meta, attempt, position, tag, error, deadline, key
      @used = false
    end

    # The payload as a binary string, with all changes of doc. Assign a new one; don't change it in place.
    def payload
      if @parsed && @mark != (mark = @doc.hash)
        @payload = Message.encode_json(@doc)
        @mark = mark
      end
      @payload
    end

    # Bytes or text as they are, and anything else as JSON.
    def payload=(value)
      @payload = Message.encode(value)
      @parsed = false
      @used = true
    end

    # The payload as a JSON document, parsed at the first use. Changes in place are sent back.
    def doc
      unless @parsed
        text = @payload.dup.force_encoding(Encoding::UTF_8)
        raise Error.new("payload is not valid JSON: it is not UTF-8", kind: "decode") unless text.valid_encoding?

        begin
          @doc = JSON.parse(text, max_nesting: Link::NESTING)
        rescue JSON::ParserError => e
          raise Error.new("payload is not valid JSON: #{e.message.sub(/\A\d+: /, "")[0, 200]}", kind: "decode"), cause: nil
        end
        @mark = @doc.hash
        @parsed = @used = true
      end
      @doc
    end

    def doc=(value)
      @doc = value
      @mark = nil
      @parsed = @used = true
    end

    # The metadata. Changes in place are sent back.
    def meta
      return @edited if @edited

      @used = true
      @meta_marks = (@meta || {}).transform_values(&:hash)
      @edited = (@meta || {}).dup
    end

    # Ends the message as filtered.
    def drop
      @used = @dropped = true
    end

    # Splits the message into messages with these values: each is bytes, text, or anything else as JSON.
    def split(*values)
      @parts = values.map { |value| Message.encode(value) }
      @used = true
    end

    # Fails the message with a text or an exception. Other messages of its batch go on.
    def fail(error, kind: nil, after: nil)
      @failure = error.is_a?(Exception) ? error : Error.new(error, kind: kind, after: after)
      @used = true
    end

    # Whether flowd has given the message up.
    def cancelled?
      @cancelled
    end

    # @private
    def cancel
      @cancelled = true
    end

    # The result of the message, as JSON text and payloads. error is what its handler has raised. writes: it is an output.
    # @private
    def result(error, writes, limit)
      return PASSED unless @used || error
      return Message.failed(error || @failure) if error || @failure
      return PASSED if writes

      text, bodies = @dropped || @parts == [] ? ['{"drop":true}', []] : changes
      size = bodies.sum(&:bytesize)
      return [text, bodies] if size <= limit && text.bytesize <= MAX_TEXT

      Message.failed(Error.new("result is too large: #{size + text.bytesize} bytes", kind: "permanent"))
    rescue *FAILURES => e
      Message.failed(e)
    end

    PASSED = ["null", [].freeze].freeze
    MAX_TEXT = 8 << 20 # bytes of a result in the header of a frame, which may have 16 MiB

    class << self
      def encode(value)
        case value
        when String then value.b
        when Message then value.payload
        else encode_json(value)
        end
      end

      def encode_json(value)
        JSON.generate(value, max_nesting: Link::NESTING).b
      end

      def failed(error)
        ["{\"error\":#{JSON.generate(describe(error))}}", []]
      end

      # An exception as the protocol's error.
      def describe(error)
        own = error.is_a?(Error)
        text = own || error.is_a?(SettingError) ? error.message : "#{error.class}: #{error.message}"
        result = { text: utf8(text)[0, 4000] }
        result[:class] = utf8(error.kind) if own && error.kind
        result[:after] = error.after if own && error.after&.finite?
        cause = own ? error.cause : error
        detail = (own && error.detail) || (cause && trace(cause))
        result[:detail] = utf8(detail)[0, 8000] if detail
        result
      end

      # Text that JSON can have.
      def utf8(value)
        text = value.to_s
        text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
      end

      private

      # The backtrace without the lines that are of this library.
      def trace(error)
        lines = (error.backtrace || []).reject { |line| line.start_with?(__dir__) }
        text = "#{error.class}: #{error.message}\n#{lines.map { |line| "\tfrom #{line}\n" }.join}"
        error.cause ? "#{text}caused by #{trace(error.cause)}" : text
      end
    end

    private

    def changes
      meta = meta_changes
      unless @parts
        return [meta ? JSON.generate({ meta: meta }) : "null", []] if payload.equal?(@sent)

        size = payload.bytesize
        return [meta ? JSON.generate({ size: size, meta: meta }) : size.to_s, [payload]]
      end
      header = { parts: @parts.map(&:bytesize) }
      header[:meta] = meta if meta
      [JSON.generate(header), @parts]
    end

    def meta_changes
      return unless @edited

      changes = @edited.reject { |name, value| @meta_marks[name] == value.hash }
      @meta_marks.each_key { |name| changes[name] = nil unless @edited.key?(name) }
      changes unless changes.empty?
    end
  end
end
