// Details of one step: what was called, what came back, the raw events.
import type { ComponentChildren } from "preact";
import { lengthOf, type Fold, type Span } from "../../model/fold.ts";
import { money } from "../../model/money.ts";
import { bytes, clock, count, duration, percent } from "../../model/time.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { Badge, copyText, CopyButton, IconButton } from "../../ui/basics.tsx";
import { Code, Json } from "../../ui/code.tsx";
import { AgentText } from "../../ui/lazy.tsx";
import { labelOf } from "./labels.ts";
import { Glyph } from "./trace.tsx";
import { select } from "./view.ts";

const texts = runText.inspector;
export type InspectorTab = "call" | "output" | "json";

const Part = ({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) => (
  <section>
    <h2>
      {title}
      <span class="gap" />
      {actions}
    </h2>
    {children}
  </section>
);

const Pairs = ({ pairs }: { pairs: [string, ComponentChildren][] }) => (
  <dl class="kv">
    {pairs.map(([name, value]) => (
      <>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </>
    ))}
  </dl>
);

/** The arguments of a call: a command as a command, everything else as JSON. */
function Arguments({ span: { event } }: { span: Span }) {
  if (event.type !== "tool_start") return null;
  const { command, ...rest } = event.data.arguments;
  if (typeof command !== "string")
    return (
      <Part title={texts.arguments}>
        <Json value={event.data.arguments} label={texts.arguments} />
      </Part>
    );
  return (
    <>
      <Part title={texts.command} actions={<CopyButton text={() => command} />}>
        <Code text={command} label={texts.command} />
      </Part>
      {Object.keys(rest).length > 0 && (
        <Part title={texts.arguments}>
          <Json value={rest} label={texts.arguments} />
        </Part>
      )}
    </>
  );
}

function Output({ span, fold }: { span: Span; fold: Fold }) {
  const { event, toolEnd } = span;
  if (event.type !== "tool_start" && !toolEnd) return null;
  const output = toolEnd?.data.output ?? (event.type === "tool_start" ? fold.outputs.get(event.data.id) : "") ?? "";
  const whole = toolEnd?.data.output_bytes ?? output.length;
  const title = output
    ? `${texts.output} · ${texts.outputOf(bytes(new TextEncoder().encode(output).length), bytes(whole))}`
    : texts.output;
  return (
    <Part title={title} actions={output && <CopyButton text={() => output} />}>
      {output ? (
        <Code text={output} label={texts.output} />
      ) : (
        <p class="dim">{span.end === undefined ? texts.stillRunning : texts.noOutput}</p>
      )}
    </Part>
  );
}

function Requests({ span }: { span: Span }) {
  return span.calls?.map(({ id, data }) => (
    <Part key={id} title={texts.request}>
      <Pairs
        pairs={[
          [texts.connection, data.connection],
          [
            texts.request,
            <span class="mono">
              {data.method} {data.path}
            </span>,
          ],
          [texts.answered, data.status ?? texts.noAnswer],
          [texts.bytes, bytes(data.bytes)],
          [texts.took, duration(data.duration_ms)],
        ]}
      />
    </Part>
  ));
}

function Turn({ span }: { span: Span }) {
  const { event } = span;
  if (event.type !== "model_call") return null;
  const { data } = event;
  const read = data.input_tokens + data.cache_read_tokens + data.cache_write_tokens;
  return (
    <>
      {span.text && (
        <Part title={texts.text} actions={<CopyButton text={() => span.text!} />}>
          <AgentText text={span.text} />
        </Part>
      )}
      {span.thinking && (
        <Part title={texts.thinking}>
          <AgentText text={span.thinking} />
        </Part>
      )}
      <Part title={texts.tokens}>
        <Pairs
          pairs={[
            [texts.model, data.model],
            [texts.input, count(read)],
            [texts.cached, `${count(data.cache_read_tokens)} · ${percent(data.cache_read_tokens, read)} %`],
            [texts.written, count(data.output_tokens)],
            [texts.stop, texts.stops[data.stop_reason] ?? data.stop_reason],
          ]}
        />
      </Part>
    </>
  );
}

function Meaning({ span: { event, kind } }: { span: Span }) {
  const means = runText.notes[event.type]?.means;
  return means && (kind === "note" || kind === "retry") ? (
    <Part title={texts.means}>
      <p>{means}</p>
    </Part>
  ) : null;
}

/** Exit status of a command, as its output says. */
const exitOf = ({ toolEnd }: Span) => /^\[the command exited with status (\d+)\]/.exec(toolEnd?.data.output ?? "")?.[1];

function State({ span }: { span: Span }) {
  const call = span.calls?.at(-1)?.data;
  const exit = exitOf(span);
  if (exit !== undefined)
    return (
      <Badge look={exit === "0" ? "ok" : "bad"} icon={exit === "0" ? "check" : "cross"}>
        {runText.exit(exit)}
      </Badge>
    );
  if (call?.status)
    return (
      <Badge look={call.status < 400 ? "ok" : "bad"} icon={call.status < 400 ? "check" : "cross"}>
        {call.status}
      </Badge>
    );
  if (span.isFailed)
    return (
      <Badge look="bad" icon="cross">
        {runText.error}
      </Badge>
    );
  if (span.end === undefined) return <Badge look="live">{runText.trace.running}</Badge>;
  if (span.kind !== "tool" && span.kind !== "connection") return null;
  return span.toolEnd ? (
    <Badge look="ok" icon="check">
      {runText.ok}
    </Badge>
  ) : (
    <Badge look="warn" icon="warning">
      {runText.noResult}
    </Badge>
  );
}

interface InspectorProps {
  span: Span | undefined;
  /** Whether the reader chose it: on a phone the details open only then. */
  isChosen: boolean;
  fold: Fold;
  now: number;
  tab: InspectorTab;
  onTab: (tab: InspectorTab) => void;
}

export function Inspector({ span, isChosen, fold, now, tab, onTab }: InspectorProps) {
  if (!span)
    return (
      <aside class="insp idle" aria-label={texts.label}>
        <p class="none dim">{texts.select}</p>
      </aside>
    );
  const { name } = labelOf(span);
  const start = fold.start ?? span.start;
  const whole = Math.max(1, now - start);
  const turn = fold.turns.get(span.step);
  return (
    <aside class={`insp ${isChosen ? "sheet" : ""}`} aria-label={texts.label}>
      <header>
        <Glyph span={span} />
        <b class="t">{name}</b>
        <span class="dim mono">#{span.id}</span>
        <State span={span} />
        <span class="gap" />
        <IconButton label={texts.copyLink} icon="link" onClick={() => void copyText(location.href)} />
        {isChosen && <IconButton label={t.common.close} icon="cross" onClick={() => select(undefined)} />}
      </header>
      <div class="tabs" role="tablist">
        {(Object.keys(texts.tabs) as InspectorTab[]).map((one) => (
          <button key={one} type="button" role="tab" aria-selected={one === tab} onClick={() => onTab(one)}>
            {texts.tabs[one]}
          </button>
        ))}
      </div>
      <div class="body" key={span.id} tabIndex={0} role="tabpanel" aria-label={texts.tabs[tab]}>
        {tab === "json" &&
          [span.event, ...(span.calls ?? []), ...(span.toolEnd ? [span.toolEnd] : [])].map((event) => (
            <Json key={event.id} value={event} label={event.type} />
          ))}
        {tab === "output" && (span.kind === "turn" ? <Turn span={span} /> : <Output span={span} fold={fold} />)}
        {tab === "call" && (
          <>
            <Meaning span={span} />
            <Arguments span={span} />
            <Turn span={span} />
            <Output span={span} fold={fold} />
            <Requests span={span} />
            {span.kind === "note" && <Json value={span.event.data} label={span.event.type} />}
            <Part title={texts.timing}>
              <Pairs
                pairs={[
                  [
                    texts.started,
                    <>
                      {clock(span.start)} <span class="dim">+{duration(span.start - start)}</span>
                    </>,
                  ],
                  ...(span.end === span.start
                    ? []
                    : [
                        [
                          texts.took,
                          <>
                            {duration(lengthOf(span, now))}{" "}
                            <span class="dim">· {texts.share(percent(lengthOf(span, now), whole))}</span>
                          </>,
                        ] as [string, ComponentChildren],
                      ]),
                  ...(turn && turn !== span
                    ? [
                        [
                          texts.askedBy,
                          <button type="button" class="as-link" onClick={() => select(turn.id)}>
                            {runText.trace.turn(span.step)}
                          </button>,
                        ] as [string, ComponentChildren],
                      ]
                    : []),
                ]}
              />
            </Part>
            <Part title={texts.cost}>
              <Pairs
                pairs={[
                  [texts.thisStep, money(span.costMicros)],
                  [texts.soFar, money(span.costSoFar)],
                ]}
              />
            </Part>
          </>
        )}
      </div>
    </aside>
  );
}
