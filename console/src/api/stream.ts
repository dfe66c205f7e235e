// Reads server-sent events from the bytes of a response. Chunks may be cut at any byte.

export interface ServerMessage {
  id?: string;
  event: string;
  data: string;
}

/** Takes bytes, gives the messages that they complete. */
export function messageReader(): (bytes: Uint8Array) => ServerMessage[] {
  const decoder = new TextDecoder();
  let rest = "";
  let message: { id?: string; event: string; data: string[] } = { event: "message", data: [] };

  const addLine = (line: string, messages: ServerMessage[]) => {
    if (line === "") {
      if (message.data.length) messages.push({ ...message, data: message.data.join("\n") });
      message = { event: "message", data: [] };
      return;
    }
    const colon = line.indexOf(":");
    const [name, value] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (name === "data") message.data.push(value);
    else if (name === "event") message.event = value;
    else if (name === "id") message.id = value;
  };

  return (bytes) => {
    const messages: ServerMessage[] = [];
    const text = rest + decoder.decode(bytes, { stream: true });
    // A carriage return at the end may be the first half of a line end.
    const whole = text.endsWith("\r") ? text.slice(0, -1) : text;
    const lines = whole.split(/\r\n|\n|\r/);
    rest = lines.pop()! + text.slice(whole.length);
    for (const line of lines) addLine(line, messages);
    return messages;
  };
}
