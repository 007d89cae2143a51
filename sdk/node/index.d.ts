/** Bytes, text, or anything that JSON can represent. */
export type Value = Uint8Array | string | number | boolean | null | object;

export type Kind = "permanent" | "transient" | "rejected" | "decode" | "timeout" | "auth";

export interface ErrorOptions {
  /** Whether a retry makes sense. Default: permanent, or transient in an output. */
  kind?: Kind;
  /** Least number of seconds before a retry. */
  after?: number;
  /** For the dead letter. Default: the stack of the cause. */
  detail?: string;
  cause?: unknown;
}

/** Fails a message. */
export class MessageError extends Error {
  constructor(text: string, options?: ErrorOptions);
  readonly kind?: Kind;
  readonly after?: number;
  readonly detail?: string;
}

/** Says at the start that a field of the component's config is wrong. */
export class SettingError extends Error {
  constructor(setting: string, text: string);
  readonly setting: string;
}

/** Ends a message as filtered. */
export const DROP: unique symbol;

export class Message<D = any> {
  /** position: any JSON value, which flowd keeps. tag: any value, which the program keeps. Both are for inputs. */
  constructor(value?: Value, options?: { meta?: Record<string, any>; attempt?: number; position?: any; tag?: any });
  /** The payload as a JSON document, parsed at the first use. Changes in place are sent back. */
  doc: D;
  /** The payload, with all changes of doc. Assign to it, and don't change its bytes. */
  get payload(): Buffer;
  set payload(payload: Uint8Array | string);
  /** The metadata. Changes in place are sent back. */
  readonly meta: Record<string, any>;
  /** How often the source has delivered the message, from 1; 0: unknown. */
  readonly attempt: number;
  /** When flowd gives the message up, to compare with Date.now(), or null. */
  readonly deadline: number | null;
  /** Is aborted when flowd gives the message up. */
  readonly signal: AbortSignal;
  readonly cancelled: boolean;
  /** The key of the batch, if a batcher with a key has made it. */
  readonly key: any;
  /** For an output that is a dead letter: why the message failed. */
  readonly error: { text: string; class: string } | null;
  readonly position?: any;
  readonly tag?: any;
  /** Fails this message of a batch. */
  fail(error: string | Error, options?: ErrorOptions): void;
}

export interface Context {
  config: any;
  /** The position to continue after; null: from the start. */
  position: any;
  name: string;
  pipeline: string;
  /** Number of this process among those of the component. */
  instance: number;
  /** How many there are. */
  instances: number;
  /** Is aborted when no message is wanted any more. */
  signal: AbortSignal;
}

/** undefined keeps the message with its changes, an array splits it, and anything else replaces the payload. */
export type Result = void | undefined | typeof DROP | Error | Message | Value;

type Handler<I, O> = ((input: I) => O | Promise<O>) | (new (config: any) => { process(input: I): O | Promise<O> });
type Yields = Iterable<Value | Message> | AsyncIterable<Value | Message>;
type Fate = "delivered" | "filtered" | "dead_lettered" | "dropped" | "returned";
type Settled = (msg: Message, fate: Fate, error: MessageError | null) => void | Promise<void>;

/** Makes a function or a class the step of this program. At most concurrency (64) promises are pending at once. */
export function step<H extends Handler<Message, Result>>(handler: H, options?: { batch?: false; concurrency?: number }): H;
export function step<H extends Handler<Message[], void | undefined | Error | Result[]>>(
  handler: H, options: { batch: true; concurrency?: number }): H;

/** Makes a function or a class the output of this program. A message is written when it returns. */
export function output<H extends Handler<Message, any>>(handler: H, options?: { batch?: false; concurrency?: number }): H;
export function output<H extends Handler<Message[], any>>(handler: H, options: { batch: true; concurrency?: number }): H;

/** Makes a generator the input of this program. */
export function input<H extends Handler<Context, Yields>>(generator: H): H;

/** Makes a function get the fate of each message of the input, one after the other. */
export function settled<H extends Settled>(handler: H): H;

/** Makes a function prepare the work, once, before the first message. */
export function setup<F extends (config: any) => void | Promise<void>>(prepare: F): F;

type Log = (text: string, fields?: Record<string, unknown>) => void;
export const log: { debug: Log; info: Log; warn: Log; error: Log };

type Labels = Record<string, unknown>;
export const metric: {
  count(name: string, value?: number, labels?: Labels): void;
  gauge(name: string, value: number, labels?: Labels): void;
  observe(name: string, value: number, labels?: Labels): void;
};

/** Says whether the program can work. It also shows that the program is alive. */
export function state(ready: boolean, reason?: string): void;
