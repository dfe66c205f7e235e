// Parts that are loaded when they are shown first.
import { useEffect, useState } from "preact/hooks";
import type { FunctionComponent } from "preact";
import { visible } from "../model/ansi.ts";

let markdown: FunctionComponent<{ text: string }> | undefined;

/** Markdown of an agent: plain text until the renderer is there. */
export function AgentText({ text }: { text: string }) {
  const [, setLoaded] = useState(markdown !== undefined);
  useEffect(() => {
    if (markdown) return;
    void import("./markdown.tsx").then((module) => {
      markdown = module.Markdown;
      setLoaded(true);
    });
  }, []);
  const Renderer = markdown;
  return Renderer ? <Renderer text={text} /> : <div class="markdown plain">{visible(text)}</div>;
}
