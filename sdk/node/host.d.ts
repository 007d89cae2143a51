/** A program, and flowd's side of its pipes. */
export class Host {
  constructor(command: string[], kind?: "step" | "input" | "output", hello?: Record<string, unknown>);
  readonly link: { send(header: object, bodies?: Uint8Array[]): void };
  /** Header and body of the next frame, or null after the last one. */
  next(): Promise<[any, Buffer] | null>;
  /** Closes the pipe, and returns the exit status or signal of the program. */
  close(): Promise<number | string>;
}

/** Yields index, result and payloads of each result in a frame. The payloads are null if they are unchanged. */
export function results(header: any, body: Buffer): Generator<[number, any, Buffer[] | null]>;
