// The run as a conversation: the prompt, what the model wrote, and its calls folded.
import type { Api } from "../../api/client.ts";
import type { Fold, Span } from "../../model/fold.ts";
import { lengthOf } from "../../model/fold.ts";
import { money } from "../../model/money.ts";
import { isTop } from "../../model/spans.ts";
import { duration } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { runText } from "../../text/run.ts";
import { Json } from "../../ui/code.tsx";
import { AgentText } from "../../ui/lazy.tsx";
import { plainLabel } from "./labels.ts";
import { Glyph } from "./trace.tsx";
import { setQuery } from "../../router.ts";

const texts = runText.transcript;

function Calls({ spans, now }: { spans: Span[]; now: number }) {
  if (spans.length === 0) return null;
  return (
    <details class="calls">
      <summary>{texts.calls(spans.length)}</summary>
      <ul>
        {spans.map((span) => (
          <li key={span.id}>
            <Glyph span={span} />
            <button
              type="button"
              class="as-link t"
              onClick={() => setQuery({ tab: "trace", event: String(span.id) }, { replace: false })}
            >
              {plainLabel(span)}
            </button>
            <span class="dim num">{span.end === span.start ? "" : duration(lengthOf(span, now))}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

export function Transcript({ fold, request, now }: { fold: Fold; request: Api.RunRequest | undefined; now: number }) {
  const turns = [...fold.turns.values()];
  const bySteps = Map.groupBy(
    fold.spans.filter((span) => !isTop(span)),
    ({ step }) => step,
  );
  return (
    <div class="page transcript" tabIndex={0} role="group" aria-label={runText.tabs.transcript}>
      {request?.prompt !== undefined && (
        <article>
          <h2>{texts.prompt}</h2>
          <div class="text plain">{visible(request.prompt)}</div>
          {request.input !== undefined && (
            <>
              <h2>{texts.input}</h2>
              <Json value={request.input} label={texts.input} />
            </>
          )}
        </article>
      )}
      {turns.map((turn) => (
        <article key={turn.id}>
          <h2>
            {texts.turn(turn.step)}{" "}
            <span class="dim num">
              {duration(lengthOf(turn, now))} · {money(turn.costMicros)}
            </span>
          </h2>
          {turn.thinking && (
            <details>
              <summary>{texts.thinking}</summary>
              <AgentText text={turn.thinking} />
            </details>
          )}
          {turn.text && <AgentText text={turn.text} />}
          <Calls spans={bySteps.get(turn.step) ?? []} now={now} />
        </article>
      ))}
      {fold.live && (
        <article>
          <h2>
            {texts.turn(fold.live.step)} <span class="dim">{texts.writing}</span>
          </h2>
          <div class="say live">{visible(fold.live.text)}</div>
        </article>
      )}
    </div>
  );
}
