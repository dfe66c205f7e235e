// Server-sent events, as the WHATWG HTML standard parses them.

export interface Message {
  event: string;
  data: string;
  /** ID that this message itself has. */
  id: string | undefined;
}

/** Splits a body into messages. A message that is not complete at the end is dropped. */
export async function* messagesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Message, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  let event: string | undefined;
  let id: string | undefined;
  let data: string[] = [];
  for await (const chunk of chunks) {
    // A line may end with a carriage return, whose line feed comes with the next chunk.
    const text = rest + decoder.decode(chunk, { stream: true });
    const end = text.endsWith("\r") ? text.length - 1 : text.length;
    const lines = text.slice(0, end).split(/\r\n|\n|\r/);
    rest = (lines.pop() ?? "") + text.slice(end);
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { event: event || "message", data: data.join("\n"), id };
        event = id = undefined;
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") data.push(value);
      else if (field === "event") event = value;
      else if (field === "id" && !value.includes("\0")) id = value;
    }
  }
}

/** The chunks of a body. Fails with `silent()` if none comes for `silenceMs`; time that the reader needs does not count. */
export async function* chunksOf(
  body: ReadableStream<Uint8Array>,
  silenceMs: number,
  silent: () => Error,
  onBytes: () => void = () => undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body.getReader();
  try {
    for (;;) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const silence = new Promise<never>((_, reject) => {
        const giveUp = () => reject(silent());
        timer = setTimeout(giveUp, silenceMs);
      });
      const { done, value } = await Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
      if (done) return;
      onBytes();
      yield value;
    }
  } finally {
    // The connection is closed, whatever ended the reading.
    await reader.cancel().catch(() => undefined);
  }
}
