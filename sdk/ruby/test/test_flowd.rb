# frozen_string_literal: true

# Runs programs over pipes, as flowd does.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "minitest/autorun"
require "open3"
require "rbconfig"
require "timeout"
require "tmpdir"
require "flowd/host"

class ProgramTest < Minitest::Test
  LIBRARY = File.expand_path("../lib", __dir__)

  def run
    Timeout.timeout(60) { super } # a program that hangs fails the test
  end

  def setup
    @dir = Dir.mktmpdir
    @number = 0
    @others = []
    @hosts = []
  end

  def teardown
    @hosts.each do |host|
      Process.kill("KILL", host.pid)
      Process.wait(host.pid)
    rescue SystemCallError
      nil # it has ended
    end
    FileUtils.rm_rf(@dir)
  end

  def write(code)
    path = File.join(@dir, "program#{@hosts.size}.rb")
    File.write(path, "require 'flowd'\n#{code}")
    path
  end

  # Starts a program, and reads its ready.
  def start(code, ready: true, **hello)
    @hosts << @host = Flowd::Host.new(RbConfig.ruby, "-I", LIBRARY, write(code), **hello)
    assert_equal({ "type" => "ready", "version" => 1 }, @host.receive[0]) if ready
  end

  def send_frame(**header)
    @host.link.send_frame(header)
  end

  def batch(*payloads, **fields)
    payloads = payloads.map { |payload| payload.is_a?(String) ? payload.b : JSON.generate(payload) }
    @number += 1
    @host.link.send_frame({ type: "batch", batch: @number, sizes: payloads.map(&:bytesize) }.merge(fields), payloads)
  end

  # What becomes of the n messages of a batch: nil, payloads, or a result without sizes and payloads.
  def answers(count, batch = @number)
    found = {}
    while found.size < count
      header, body = @host.receive
      unless header["type"] == "results" && header["batch"] == batch
        @others << header
        next
      end
      Flowd::Host.results(header, body).each do |i, result, payloads|
        refute_includes found, i, "answered twice"
        result = result.reject { |name, _| %w[size parts].include?(name) }
        found[i] = result.empty? ? payloads : [result, *payloads]
      end
    end
    (0...count).map { |i| found[i] }
  end

  def errors(count)
    answers(count).map { |answer| answer && answer[0]["error"] }
  end

  def finish
    send_frame(type: "drain", timeout: 5)
    assert_equal 0, @host.close
  end

  def quietly
    saved = $stderr.dup
    $stderr.reopen(File::NULL)
    yield
  ensure
    $stderr.reopen(saved)
  end
end

class StepTest < ProgramTest
  def test_documents_payloads_and_metadata
    start <<~'RUBY'
      Flowd.step do |msg|
        case msg.meta["case"]
        when "doc" then msg.doc["n"] += 1
        when "read" then msg.doc["n"]; msg.payload
        when "bytes" then msg.payload = "\xff\x00"
        when "both"
          msg.payload = '{"n": 5}'
          msg.doc["n"] = 6
          msg.meta["new"] = msg.attempt
          msg.meta["list"] << 2
          msg.meta.delete("case")
        when "drop" then msg.drop
        when "split" then msg.split(1, "x", "\xff", { a: nil })
        when "none" then msg.split
        when "array" then msg.doc = [1, "é"]
        end
      end
    RUBY
    cases = {
      doc: ['{"n":9007199254740994,"f":1.1}'],
      read: nil,
      bytes: ["\xff\x00".b],
      both: [{ "meta" => { "case" => nil, "new" => 7, "list" => [1, 2] } }, '{"n":6}'],
      drop: [{ "drop" => true }],
      split: ["1", "x", "\xff".b, '{"a":null}'],
      none: [{ "drop" => true }],
      array: ['[1,"é"]'.b],
      "not JSON": nil,
      empty: nil
    }
    n = cases.size
    batch(*['{"n": 9007199254740993, "f": 1.10}'] * (n - 2), "\xff", "",
          meta: cases.keys.map { |name| { case: name, list: [1] } }, attempts: [7] * n)
    assert_equal cases.values, answers(n)
    finish
  end

  def test_errors_fail_one_message
    start <<~RUBY, limits: { body: 1000, window: 100 }
      def inner = raise(KeyError, "no such thing")
      Flowd.step do |msg|
        case msg.doc
        when 0 then msg.doc = Process.pid
        when 1 then raise Flowd::Error.new("busy", kind: "transient", after: 1.5)
        when 2 then inner
        when 3 then msg.doc = Float::NAN
        when 4 then begin inner; rescue KeyError; raise Flowd::Error, "wrapped"; end
        when 5 then msg.payload = "x" * 2000
        when 6 then msg.fail("failed", kind: "rejected")
        when 7 then raise NotImplementedError
        when 8 then def again = again(); again
        end
      end
    RUBY
    batch(0, 1, 2, 3, 4, 5, 6, 7, 8, "{", "\"\xff\"", "NaN", 0)
    got = answers(13).map { |answer| answer[0].is_a?(Hash) ? answer[0]["error"] : answer[0] }
    assert_equal [@host.pid.to_s] * 2, [got[0], got[12]], "the program was restarted"
    assert_equal({ "text" => "busy", "class" => "transient", "after" => 1.5 }, got[1])
    assert_equal "KeyError: no such thing", got[2]["text"]
    assert_match(/in `inner'/, got[2]["detail"])
    refute_match(/steps\.rb/, got[2]["detail"])
    assert_match(/GeneratorError.*NaN/, got[3]["text"])
    assert_equal "wrapped", got[4]["text"]
    assert_match(/in `inner'/, got[4]["detail"])
    assert_match(/too large: 2004 bytes/, got[5]["text"])
    assert_equal({ "text" => "failed", "class" => "rejected" }, got[6])
    assert_match(/NotImplementedError/, got[7]["text"])
    assert_match(/SystemStackError/, got[8]["text"])
    assert_equal %w[decode decode decode], got[9..11].map { |error| error["class"] }
    finish
  end

  def test_nothing_that_a_handler_gives_breaks_a_header
    start <<~'RUBY'
      loop = []
      loop << loop
      Flowd.step do |msg|
        case msg.doc
        when 1 then msg.meta["x"] = "\xff"
        when 2 then msg.meta["\xff"] = 1
        when 3 then msg.meta["x"] = Float::INFINITY
        when 4 then raise "a \xff b"
        when 5 then raise Flowd::Error.new(5, kind: 6, after: "1.5", detail: 7)
        when 6 then Flowd.metric.count("c", Float::NAN)
        when 7 then Flowd.metric.gauge("g", "1")
        when 8 then Flowd.metric.count("c", a: 1, b: "\xff")
        when 9 then Flowd.log.info(1, a: "\xff", b: loop, c: Float::NAN)
        when 10 then Flowd.state(1, nil)
        end
      end
    RUBY
    batch(*0..10)
    got = errors(11)
    [1, 2, 3].each { |i| assert_match(/GeneratorError/, got[i]["text"]) }
    [6, 7].each { |i| assert_match(/is not a number/, got[i]["text"]) }
    assert_equal "RuntimeError: a \u{fffd} b", got[4]["text"]
    assert_equal({ "text" => "5", "class" => "6", "after" => 1.5, "detail" => "7" }, got[5])
    assert_equal [nil] * 4, got.values_at(0, 8, 9, 10)
    metric, log, state = %w[metric log state].map { |type| @others.find { |header| header["type"] == type } }
    assert_equal({ "a" => "1", "b" => "\u{fffd}" }, metric["labels"])
    assert_equal ["1", "[[...]]"], [log["text"], log["fields"]["b"]]
    assert_equal({ "type" => "state", "ready" => true, "reason" => "" }, state)
    finish
  end

  def test_split_frames_and_large_bodies
    start "Flowd.step { |msg| msg.payload = msg.payload.reverse }"
    large = Random.bytes(8 << 20)
    whole = Flowd::Link.frame({ type: "batch", batch: 1, sizes: [3, large.bytesize] }, ["abc", large])
    [0...3, 3...9, 9...100, 100..].each { |part| @host.link.write(whole.byteslice(part)) }
    @number = 1
    assert_equal [["cba"], [large.reverse]], answers(2)
    finish
  end

  def test_results_are_cut_to_the_limit
    start 'Flowd.step { |msg| msg.payload = "x" * 60 }', limits: { body: 100, window: 100 }
    batch(1, 2, 3)
    3.times do |i|
      header, body = @host.receive
      assert_equal [i, [60], 60], [header["first"], header["results"], body.bytesize]
    end
    finish
  end

  def test_slow_results_leave_early_and_cancel_is_seen_between_messages
    go = File.join(@dir, "go")
    start <<~RUBY
      Flowd.step do |msg|
        sleep 0.06
        sleep 0.001 until msg.doc != 1 || File.exist?(msg.meta["go"])
        msg.payload = "seen"
      end
    RUBY
    batch(*0...100, meta: [{ go: go }] * 100)
    found = @host.receive[0]["results"]
    assert_equal [4], found
    send_frame(type: "cancel", batch: 1, indices: (2...100).to_a)
    send_frame(type: "cancel", batch: 99)
    File.write(go, "")
    found += @host.receive[0]["results"] while found.size < 100
    assert_equal [4, 4] + [nil] * 98, found
    finish
  end

  def test_batches
    start <<~RUBY
      Flowd.step(batch: true) do |msgs|
        raise "all" if msgs.size == 1
        next if msgs.size == 2
        msgs[0].doc["a"] = 1
        msgs[1].fail("bad", kind: "rejected", after: 2)
        msgs[2].fail(KeyError.new("k"))
        msgs[3].split(1, 2)
        msgs[4].drop
      end
    RUBY
    batch(*[{ id: 1 }] * 6)
    assert_equal [
      ['{"id":1,"a":1}'],
      [{ "error" => { "text" => "bad", "class" => "rejected", "after" => 2 } }],
      [{ "error" => { "text" => "KeyError: k", "detail" => "KeyError: k\n" } }],
      %w[1 2], [{ "drop" => true }], nil
    ], answers(6)
    batch(1)
    assert_equal ["RuntimeError: all"], errors(1).map { |error| error["text"] }
    batch(1, 2)
    assert_equal [nil, nil], answers(2)
    finish
  end

  def test_threads
    start <<~RUBY
      Flowd.step(concurrency: 3) do |msg|
        case msg.doc
        when "hang" then sleep 0.01 until msg.cancelled?
        when "raise" then raise "no"
        else sleep 0.01
        end
      end
    RUBY
    batch(:hang, *[:x] * 10, :raise)
    refute_equal 0, @host.receive[0]["first"], "results wait for the slow one"
    send_frame(type: "cancel", batch: 1)
    batch(*[:x] * 10)
    assert_equal [nil] * 10, answers(10)
    finish
  end

  def test_threads_with_batches
    start "Flowd.step(batch: true, concurrency: 2) { |msgs| msgs.each { |msg| msg.doc += 1 } }"
    batch(1, 2)
    assert_equal [["2"], ["3"]], answers(2)
    batch(3, "x")
    assert_equal %w[decode decode], errors(2).map { |error| error["class"] }
    finish
  end

  def test_set_up_and_a_class_that_is_built_once
    start <<~RUBY, config: { factor: 3 }
      puts "noise"
      class Score
        def initialize(config) = @factor = config["factor"]
        def call(msg) = msg.doc *= @factor * $model
      end
      Flowd.step(Score)
      Flowd.setup { |config| $model = 2 }
    RUBY
    batch(2)
    assert_equal [["12"]], answers(1)
    finish
  end

  def test_key_deadline_and_errors
    start <<~RUBY
      Flowd.step do |msg|
        left = msg.deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        msg.doc = { key: msg.key, left: left.between?(25, 30), error: msg.error }
      end
    RUBY
    batch(1, 2, key: ["a"], timeout: 30, errors: [nil, { text: "t" }])
    assert_equal [['{"key":["a"],"left":true,"error":null}'], ['{"key":["a"],"left":true,"error":{"text":"t"}}']], answers(2)
    finish
  end

  def test_logs_metrics_and_states
    start <<~RUBY
      Flowd.step do |msg|
        Flowd.log.warn("hé", n: msg.doc)
        Flowd.metric.count("hits", model: "a")
        Flowd.metric.count("hits", 2, model: "a")
        Flowd.metric.gauge("depth", 3.5)
        Flowd.metric.observe("seconds", 0.1, x: "y")
        Flowd.state(false, "no disk")
      end
    RUBY
    batch(1)
    assert_equal [nil], answers(1)
    hits, others = @others.partition { |header| header["name"] == "hits" && header["labels"] == { "model" => "a" } }
    assert_equal 3, hits.sum { |header| header["value"] }
    assert_equal({ "type" => "log", "level" => "warn", "text" => "hé", "fields" => { "n" => 1 } }, others[0])
    assert_equal [nil, "gauge", "histogram", nil], others.map { |header| header["kind"] }
    assert_equal({ "type" => "state", "ready" => false, "reason" => "no disk" }, others[3])
    finish
  end

  def test_threads_write_whole_frames
    start <<~RUBY
      Flowd.step do |msg|
        Array.new(4) { Thread.new { 200.times { Flowd.log.info("x" * 3000) } } }.each(&:join)
      end
    RUBY
    batch(1)
    answers(1)
    assert_equal 800, @others.size
    finish
  end
end

class StartTest < ProgramTest
  STEP = "Flowd.step { |msg| }\n"

  def failure(code, **hello)
    quietly { start(code, ready: false, **hello) }
    error = @host.receive[0]["error"]
    assert_equal 1, @host.close
    error
  end

  def test_what_is_wrong_is_in_ready
    assert_equal({ "text" => "no such model", "setting" => "model" },
                 failure("#{STEP}Flowd.setup { raise Flowd::SettingError.new('model', 'no such model') }"))
    assert_equal({ "text" => "ZeroDivisionError: divided by 0" }, failure("#{STEP}Flowd.setup { 1 / 0 }"))
    assert_match(/has no Flowd.input \(it has step\)/, failure(STEP, kind: "input")["text"])
  end

  def test_a_program_that_does_not_load_exits
    { "raise 'x'" => 1, "exit 3" => 3, "exit" => 0, "def" => 1, "exit! 4" => 4 }.each do |last, status|
      quietly { start(STEP + last, ready: false) }
      assert_raises(Flowd::Closed) { @host.receive }
      assert_equal status, @host.close
    end
  end

  def test_handlers_can_be_tested_without_flowd
    load write("SCORE = Flowd.step { |msg| msg.doc['a'] = 1 }")
    msg = Flowd::Message.new({})
    SCORE.call(msg)
    assert_equal '{"a":1}', msg.payload
  end

  def test_children_do_not_serve_and_do_not_inherit_descriptors
    start <<~RUBY
      Flowd.step do |msg|
        Process.wait(fork {})
        Process.kill("TERM", child = fork { sleep })
        msg.doc = [$?.exitstatus, Process.wait2(child)[1].termsig, system("true >&4", err: File::NULL, close_others: false)]
      end
    RUBY
    batch(1)
    assert_equal [["[0,15,false]"]], answers(1)
    finish
  end
end

class EndTest < ProgramTest
  def test_batches_are_answered_after_drain
    ["", "(concurrency: 2)"].each do |options|
      start "Flowd.step#{options} { |msg| sleep 0.02 }"
      batch(1, 2, 3)
      send_frame(type: "drain", timeout: 5)
      @host.instance_variable_get(:@out).close
      assert_equal [nil] * 3, answers(3)
      assert_equal 0, @host.close
      @number = 0
    end
  end

  def test_the_pipe_closes_without_drain
    ["", "(concurrency: 2)"].each do |options|
      start "Flowd.step#{options} { |msg| sleep 0.06 }"
      batch(*1..1000)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      assert_equal 0, @host.close
      assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, :<, 20
    end
  end

  def test_sigterm_finishes_what_is_there_and_sigint_is_ignored
    ["", "(concurrency: 2)"].each do |options|
      start "Flowd.step#{options} { |msg| sleep 0.005 }"
      Process.kill("INT", @host.pid)
      batch(*1..20)
      found = @host.receive[0]["results"].size
      Process.kill("TERM", @host.pid)
      assert_raises(Flowd::Closed) { loop { found += @host.receive[0]["results"].size } }
      assert_equal 20, found
      assert_equal 0, @host.close
    end
  end

  def test_sigterm_ends_an_idle_program
    ["Flowd.step { |msg| }", "Flowd.step(concurrency: 2) { |msg| }"].each do |code|
      start code
      Process.kill("TERM", @host.pid)
      assert_raises(Flowd::Closed) { @host.receive }
      assert_equal 0, @host.close
    end
  end
end

class OutputTest < ProgramTest
  def test_returning_means_written
    start <<~RUBY, kind: "output"
      Flowd.output do |msg|
        raise IOError, "disk" if msg.doc == 1
        raise Flowd::Error.new("full", kind: "transient", after: 3) if msg.doc == 2
        msg.doc = "ignored"
      end
    RUBY
    batch(0, 1, 2)
    got = errors(3)
    assert_nil got[0]
    assert_equal "IOError: disk", got[1]["text"]
    refute_includes got[1], "class", "flowd knows the default of outputs"
    assert_equal({ "text" => "full", "class" => "transient", "after" => 3 }, got[2])
    finish
  end

  def test_batches
    start "Flowd.output(batch: true) { |msgs| msgs[0].fail('no') }", kind: "output"
    batch(0, 1)
    assert_equal [{ "text" => "no" }, nil], errors(2)
    finish
  end
end

class InputTest < ProgramTest
  # Returns payload, metadata and position of the next n messages.
  def messages(count)
    found = []
    while found.size < count
      header, body = @host.receive
      assert_equal "messages", header["type"]
      at = 0
      header["sizes"].each_with_index do |size, i|
        found << [body.byteslice((at += size) - size, size), header.dig("meta", i), header.dig("positions", i)]
      end
    end
    assert_equal count, found.size, "more messages than credits"
    found
  end

  def test_positions_credits_and_the_end
    start <<~'RUBY', kind: "input", config: { to: 1000 }, position: 9
      Flowd.input do |input|
        (input.position + 1...input.config["to"]).each { |n| input.emit(n, meta: { n: n }, position: n) }
        input << "é" << "\xff" << { a: 1 }
      end
    RUBY
    send_frame(type: "credit", messages: 3)
    assert_equal [10, 11, 12].map { |n| [n.to_s, { "n" => n }, n] }, messages(3)
    send_frame(type: "credit", messages: 1)
    send_frame(type: "credit", messages: 1000)
    rest = messages(990).map { |payload, _, position| [payload, position] }
    assert_equal [["999", 999], ["é".b, nil], ["\xff".b, nil], ['{"a":1}', nil]], rest.last(4)
    assert_equal({ "type" => "end" }, @host.receive[0])
    assert_equal 0, @host.close
  end

  def test_messages_that_flowd_would_refuse
    [['meta: { a: "\xff" }', /GeneratorError/], ['position: "x" * 70_000', /position has 70002/]].each do |option, text|
      start "Flowd.input { |input| input.emit(1, #{option}) }", kind: "input"
      assert_match text, @host.receive[0]["error"]["text"]
      assert_equal 1, @host.close
    end
    start 'Flowd.input { |input| input << "x" * 2000 }', kind: "input", limits: { body: 1000 }
    assert_match(/message has 2000 bytes/, @host.receive[0]["error"]["text"])
    assert_equal 1, @host.close
  end

  def test_fates_come_back_in_order
    start <<~RUBY, kind: "input"
      Flowd.input do |input|
        3.times { |i| input.emit(i, tag: "t\#{i}") }
        sleep
      end
      Flowd.settled do |msg, fate, error|
        Flowd.log.info(fate, tag: msg.tag, error: error && [error.message, error.kind, error.after])
      end
    RUBY
    send_frame(type: "credit", messages: 10)
    messages(3)
    error = { text: "t", class: "transient", after: 5 }
    send_frame(type: "fates", numbers: [3, 1], fates: %w[returned delivered], errors: [error, nil])
    send_frame(type: "drain", timeout: 5)
    send_frame(type: "fates", numbers: [2, 77], fates: %w[dropped delivered])
    logs, others = Array.new(4) { @host.receive[0] }.partition { |header| header["type"] == "log" }
    assert_equal [
      ["returned", { "tag" => "t2", "error" => ["t", "transient", 5] }],
      ["delivered", { "tag" => "t0", "error" => nil }],
      ["dropped", { "tag" => "t1", "error" => nil }]
    ], logs.map { |header| header.values_at("text", "fields") }
    assert_equal [{ "type" => "end" }], others
    assert_equal 0, @host.close, "a block that waits doesn't delay the end"
  end

  def test_an_input_that_fails_or_whose_settled_fails
    ["Flowd.input { |input| input << 1; raise 'gone' }",
     "Flowd.input { |input| input << 1; sleep }; Flowd.settled { |*| raise 'gone' }"].each do |code|
      start code, kind: "input"
      send_frame(type: "credit", messages: 10)
      messages(1)
      send_frame(type: "fates", numbers: [1], fates: ["delivered"]) if code.include?("settled")
      header = @host.receive[0]
      assert_equal ["error", "RuntimeError: gone"], [header["type"], header["error"]["text"]]
      assert_equal 1, @host.close
    end
  end

  def test_sigterm_ends_an_input_that_has_no_credit
    start "Flowd.input { |input| input << 1 }", kind: "input"
    Process.kill("TERM", @host.pid)
    assert_raises(Flowd::Closed) { @host.receive }
    assert_equal 0, @host.close
  end

  def test_ensure_of_the_block_runs
    %w[drain close sigterm].each do |how|
      path = File.join(@dir, how)
      start <<~RUBY, kind: "input", config: path
        class Endless
          def initialize(config) = @path = config
          def call(input)
            loop { input << 1 }
          ensure
            File.write(@path, "")
          end
        end
        Flowd.input(Endless)
      RUBY
      send_frame(type: "credit", messages: 2)
      messages(2)
      Process.kill("TERM", @host.pid) if how == "sigterm"
      if how == "drain"
        send_frame(type: "drain", timeout: 5)
        assert_equal({ "type" => "end" }, @host.receive[0])
      end
      assert_equal 0, @host.close
      assert_path_exists path
    end
  end
end

class RunnerTest < ProgramTest
  def run_file(code, *args, stdin: "")
    exe = File.expand_path("../exe/flowd-test", __dir__)
    out, err, status = Open3.capture3(RbConfig.ruby, exe, *args, write(code), stdin_data: stdin)
    [status.exitstatus, out, err]
  end

  def test_steps
    code = <<~RUBY
      puts "noise"
      Flowd.step { |msg| msg.doc.zero? ? msg.drop : msg.split(msg.doc * 2, msg.meta.fetch("m")) }
    RUBY
    assert_equal [0, "4\n1\n6\n1\n"], run_file(code, "--meta", '{"m": 1}', stdin: "2\n0\n3\n").first(2)
    status, out, err = run_file(code, "--batch", "1", stdin: "1\n2\n\"x\n")
    assert_equal [1, ""], [status, out]
    assert_match(/line 2: permanent: KeyError/, err)
    assert_match(/line 3: decode: payload is not valid JSON/, err)
  end

  def test_inputs_and_what_is_wrong
    code = "Flowd.input { |input| input.config.times { |i| input << i } }"
    assert_equal [0, "0\n1\n2\n", ""], run_file(code, "--kind", "input", "--config", "3")
    assert_equal [0, "0\n1\n"], run_file(code, "--kind", "input", "--config", "3", "--limit", "2").first(2)
    assert_match(/it has input/, run_file(code)[2])
    assert_match(/has ended with status 1/, run_file("raise 'x'")[2])
  end
end
