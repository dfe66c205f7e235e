import type { CallOptions, Transport } from "./transport.ts";

export interface Page<T> {
  items: T[];
  /** `cursor` of the page after this one; empty on the last page. */
  nextCursor: string;
}

/** A list of any length. Iterating asks for one page after the other; `pages()` shows where they begin and end. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #field: string;
  readonly #query: object;
  readonly #options: CallOptions;

  constructor(transport: Transport, path: string, field: string, query: object, options: CallOptions) {
    this.#transport = transport;
    this.#path = path;
    this.#field = field;
    this.#query = query;
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const { items } of this.pages()) yield* items;
  }

  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    let query: Record<string, unknown> = { limit: 100, ...this.#query };
    for (;;) {
      const answer: Record<string, unknown> = await this.#transport.json("GET", this.#path, { ...this.#options, query });
      const nextCursor = answer.next_cursor as string;
      yield { items: answer[this.#field] as T[], nextCursor };
      if (!nextCursor) return;
      query = { ...query, cursor: nextCursor };
    }
  }
}
