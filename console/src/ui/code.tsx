// Text of agents and commands. It is always text: nothing of it becomes markup.
import { useState } from "preact/hooks";
import { ansiPieces, type Piece } from "../model/ansi.ts";
import { jsonPieces, prettyJson } from "../model/json.ts";
import { t } from "../text/en.ts";
import { Button } from "./basics.tsx";

const SHOWN = 64 * 1024;

const Pieces = ({ pieces }: { pieces: Piece[] }) =>
  pieces.map(({ text, className }, index) =>
    className ? (
      <span key={index} class={className}>
        {text}
      </span>
    ) : (
      text
    ),
  );

/** A text in a box: JSON in colours, output of commands with theirs. Long texts are cut until all is asked for. */
export function Code({ text, label, class: className = "" }: { text: string; label: string; class?: string }) {
  const [isWhole, setWhole] = useState(false);
  const json = prettyJson(text);
  const all = json ?? text;
  const shown = isWhole ? all : all.slice(0, SHOWN);
  return (
    <>
      <pre class={`code ${className}`} tabIndex={0} aria-label={label}>
        <Pieces pieces={json === undefined ? ansiPieces(shown) : jsonPieces(shown)} />
      </pre>
      {shown.length < all.length && <Button onClick={() => setWhole(true)}>{t.common.showAll}</Button>}
    </>
  );
}

export const Json = ({ value, ...code }: { value: unknown; label: string; class?: string }) => (
  <Code text={JSON.stringify(value, null, 2)} {...code} />
);
