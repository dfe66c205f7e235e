// Two runs side by side: figures, fields of the definition, answers.
import { useState } from "preact/hooks";
import { ApiError, call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { diffFields, diffLines } from "../../model/diff.ts";
import { isFinal } from "../../model/events.ts";
import { money } from "../../model/money.ts";
import { count, dateTime, duration, percent } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { href, navigate, query } from "../../router.ts";
import { t } from "../../text/en.ts";
import { compareText as texts } from "../../text/compare.ts";
import { Button, copyText, Empty, Loaded, Status } from "../../ui/basics.tsx";
import { TextField } from "../../ui/form.tsx";
import { Bar, runsPlace } from "../frame.tsx";
import { readRun } from "../run/state.ts";

interface Side {
  run: Api.Run;
  definition: Api.RunDefinition | undefined;
  answer: string | undefined;
}

/** A run with its answer and definition, unless reading would delete the answer. */
async function readSide(id: string, signal: AbortSignal): Promise<Side> {
  const run = await readRun(id, signal);
  if (run.zero_data_retention) return { run, definition: undefined, answer: undefined };
  const definition = await call("GET /v1/runs/{id}/definition", { path: { id }, signal }).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 410) return undefined;
    throw error;
  });
  const answer = isFinal(run.status) ? (await call("GET /v1/runs/{id}", { path: { id }, signal })).output : undefined;
  return { run, definition, answer };
}

type Row = [
  name: string,
  a: number | undefined,
  b: number | undefined,
  show: (value: number) => string,
  isShare?: boolean,
];

function rowsOf(a: Api.Run, b: Api.Run): Row[] {
  const { rows } = texts;
  const lengthOf = ({ started_at, finished_at }: Api.Run) =>
    started_at && finished_at ? Date.parse(finished_at) - Date.parse(started_at) : undefined;
  const read = ({ usage }: Api.Run) => usage && usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  const cached = (run: Api.Run) => run.usage && percent(run.usage.cache_read_tokens, read(run) ?? 0);
  return [
    [rows.duration, lengthOf(a), lengthOf(b), duration],
    [rows.cost, a.cost_micros ?? 0, b.cost_micros ?? 0, money],
    [rows.input, read(a), read(b), count],
    [rows.cached, cached(a), cached(b), (share) => `${share} %`, true],
    [rows.output, a.usage?.output_tokens, b.usage?.output_tokens, count],
    [rows.models, a.usage?.model_calls, b.usage?.model_calls, String],
    [rows.tools, a.usage?.tool_calls, b.usage?.tool_calls, String],
  ];
}

/** "−24 %", "+7 pt", "0". Less is better, but for the share of the cache. */
function Change({ a, b, isShare }: { a: number; b: number; isShare: boolean }) {
  const difference = isShare ? b - a : a ? ((b - a) / a) * 100 : 0;
  const rounded = Math.round(difference);
  if (rounded === 0) return <span class="chip num">0</span>;
  const isBetter = rounded > 0 === isShare;
  return (
    <span class={`chip num ${isBetter ? "better" : "worse"}`}>
      {rounded > 0 ? "+" : "−"}
      {Math.abs(rounded)} {isShare ? "pt" : "%"}
    </span>
  );
}

const Diff = ({ before, after, label }: { before: string; after: string; label: string }) => (
  <pre class="code tall" tabIndex={0} aria-label={label}>
    {diffLines(before, after).map(({ change, text }, index) =>
      change === "same" ? (
        <span key={index}>{`  ${visible(text)}\n`}</span>
      ) : change === "added" ? (
        <ins key={index}>{`+ ${visible(text)}\n`}</ins>
      ) : (
        <del key={index}>{`- ${visible(text)}\n`}</del>
      ),
    )}
  </pre>
);

const Head = ({ name, side: { run } }: { name: string; side: Side }) => (
  <div class="side-head">
    <p>
      <span class="dim">{name}</span> <Status status={run.status} />{" "}
      <a href={href(`/runs/${run.id}`)}>
        <b>{visible(run.title ?? run.workflow ?? t.runs.adHoc)}</b>
      </a>
    </p>
    <p class="mono sub t">{run.id}</p>
    <p class="dim">{[run.model, dateTime(run.created_at)].filter(Boolean).join(" · ")}</p>
  </div>
);

function Comparison({ a, b }: { a: Side; b: Side }) {
  const fields = a.definition && b.definition ? diffFields(a.definition.request, b.definition.request) : undefined;
  const all = new Set([...Object.keys(a.definition?.request ?? {}), ...Object.keys(b.definition?.request ?? {})]).size;
  return (
    <>
      <section class="card heads">
        <Head name={texts.a} side={a} />
        <Head name={texts.b} side={b} />
      </section>
      <div class="g2 compare">
        <section class="card">
          <header>
            <h2>{texts.figures}</h2>
          </header>
          <table>
            <thead>
              <tr>
                <th scope="col">
                  <span class="vh">{texts.figures}</span>
                </th>
                <th scope="col" class="r">
                  {texts.a}
                </th>
                <th scope="col" class="r">
                  {texts.b}
                </th>
                <th scope="col" class="r">
                  {texts.change}
                </th>
              </tr>
            </thead>
            <tbody>
              {rowsOf(a.run, b.run).map(([name, one, other, show, isShare = false]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="r">{one === undefined ? "" : show(one)}</td>
                  <td class="r">{other === undefined ? "" : show(other)}</td>
                  <td class="r">
                    {one !== undefined && other !== undefined && <Change a={one} b={other} isShare={isShare} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        <section class="card">
          <header>
            <h2>{texts.definition}</h2>
            {fields && fields.length > 0 && <span class="dim">{texts.differ(fields.length, all)}</span>}
          </header>
          <div class="form">
            {!fields && <p class="dim">{texts.gone}</p>}
            {fields?.length === 0 && <p class="dim">{texts.same}</p>}
            {fields?.map(({ field, before, after }) => (
              <div key={field}>
                <span class="sub">{field}</span>
                <Diff before={before} after={after} label={field} />
              </div>
            ))}
          </div>
        </section>
      </div>
      <section class="card">
        <header>
          <h2>{texts.answers}</h2>
        </header>
        <div class="form">
          {a.answer === b.answer ? (
            <p class="dim">{a.answer === undefined ? texts.noAnswer : texts.sameAnswers}</p>
          ) : (
            <Diff before={a.answer ?? ""} after={b.answer ?? ""} label={texts.answers} />
          )}
        </div>
      </section>
    </>
  );
}

/** Asks for the second run, with other runs of the same workflow to choose from. */
function Choose({ a }: { a: string }) {
  const [id, setId] = useState("");
  const others = useResource(a, async (signal) => {
    const { workflow } = await readRun(a, signal);
    const page = await call("GET /v1/runs", { query: { limit: 12, workflow }, signal });
    return page.items.filter((run) => run.id !== a);
  });
  const choose = (other: string) => navigate(`/runs/compare?a=${other}&b=${a}`, { replace: true });
  return (
    <section class="card">
      <header>
        <h2>{texts.chooseOther}</h2>
      </header>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          choose(id.trim());
        }}
      >
        <div class="load">
          <TextField label={texts.otherId} value={id} placeholder="run_…" onText={setId} />
          <Button type="submit" disabled={!id.trim()}>
            {texts.title}
          </Button>
        </div>
      </form>
      <ul class="list">
        {others.data.value?.map((run) => (
          <li key={run.id}>
            <Status status={run.status} />
            <button type="button" class="as-link t" onClick={() => choose(run.id)}>
              {visible(run.title ?? run.id)}
            </button>
            <span class="dim">{dateTime(run.created_at)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function ComparePage() {
  const a = query.value.get("a") ?? "";
  const b = query.value.get("b") ?? "";
  const sides = useResource(`${a} ${b}`, async (signal) =>
    a && b ? Promise.all([readSide(a, signal), readSide(b, signal)]) : undefined,
  );
  return (
    <main class="main-inner">
      <Bar title={texts.title} parent={runsPlace}>
        {a && b && (
          <Button onClick={() => navigate(`/runs/compare?a=${b}&b=${a}`, { replace: true })}>{texts.swap}</Button>
        )}
        {a && b && (
          <Button icon="link" class="wide" onClick={() => void copyText(location.href)}>
            {texts.copyLink}
          </Button>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        {a && b ? (
          <Loaded data={sides.data.value} error={sides.error.value} reload={sides.reload} rows={8}>
            {(both) => both && <Comparison a={both[0]} b={both[1]} />}
          </Loaded>
        ) : a ? (
          <Choose a={a} />
        ) : (
          <section class="card">
            <Empty icon="compare" title={texts.title}>
              <p class="sub">{texts.choose}</p>
            </Empty>
          </section>
        )}
      </div>
    </main>
  );
}
