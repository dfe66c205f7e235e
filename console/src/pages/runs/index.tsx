// The list of runs.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { fromQuery, isEmpty, VIEWS, viewOf, withView, toQuery, type View } from "../../model/filters.ts";
import { money } from "../../model/money.ts";
import { age, duration } from "../../model/time.ts";
import { href, navigate, query, setSearch } from "../../router.ts";
import { t } from "../../text/en.ts";
import { Button, ButtonLink, Chip, Empty, Loaded, Status, Time } from "../../ui/basics.tsx";
import { Code } from "../../ui/code.tsx";
import { Icon } from "../../ui/icon.tsx";
import { useKeys } from "../../ui/keys.ts";
import { announce } from "../../ui/toast.tsx";
import { Bar } from "../frame.tsx";
import { MatchingMenu, SelectionBar } from "./bulk.tsx";
import { useRuns } from "./feed.ts";
import { FilterBar, setFilters } from "./filters.tsx";
import { Histogram } from "./histogram.tsx";

const TICK_MS = 1000;

/** The time now, again and again while `isOn`. */
export function useNow(isOn: boolean, everyMs = TICK_MS): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => document.visibilityState === "visible" && setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [isOn, everyMs]);
  return now;
}

const lengthOf = ({ started_at, finished_at }: Api.Run, now: number) =>
  started_at ? Math.max(0, Date.parse(finished_at ?? new Date(now).toISOString()) - Date.parse(started_at)) : undefined;

interface RowProps {
  run: Api.Run;
  now: number;
  isCurrent: boolean;
  isSelected: boolean;
  longest: number;
  onSelect: () => void;
}

function Row({ run, now, isCurrent, isSelected, longest, onSelect }: RowProps) {
  const row = useRef<HTMLTableRowElement>(null);
  useEffect(() => void (isCurrent && row.current?.scrollIntoView({ block: "nearest" })), [isCurrent]);
  const length = lengthOf(run, now);
  const name = run.workflow ?? run.title ?? t.runs.adHoc;
  const detail = run.workflow ? (run.title ?? run.id) : t.runs.adHoc;
  const isLive = run.status === "running" || run.status === "starting";
  const whole = (run.timeout_seconds ?? 0) * 1000 || longest;
  return (
    <tr
      ref={row}
      class={isLive ? "live" : ""}
      data-current={isCurrent}
      data-selected={isSelected}
      onClick={(event) => (event.target as Element).closest("a, input, label") ?? navigate(`/runs/${run.id}`)}
    >
      <td class="pick">
        <label>
          <input
            type="checkbox"
            checked={isSelected}
            aria-label={t.runs.selectOne(run.title ?? name)}
            onChange={onSelect}
          />
        </label>
      </td>
      <td>
        <Status status={run.status} />
      </td>
      <td class="name-cell">
        <a class="name" href={href(`/runs/${run.id}`)}>
          <b>{name}</b>
          <span class={run.error ? "bad" : ""}>{run.error ?? detail}</span>
        </a>
      </td>
      <td class="opt">
        {run.tags?.slice(0, 2).map((tag) => (
          <Chip key={tag} icon="tag">
            {tag}
          </Chip>
        ))}
      </td>
      <td class="opt sub">{run.model}</td>
      <td class="r">
        {length !== undefined && duration(length)}
        <span class="mini">
          <i style={{ width: `${length === undefined ? 0 : Math.min(100, (length / whole) * 100)}%` }} />
        </span>
      </td>
      <td class="r">{run.cost_micros === undefined ? "" : money(run.cost_micros)}</td>
      <td class="r opt dim">
        <Time at={run.created_at}>{age(now - Date.parse(run.created_at))}</Time>
      </td>
      <td class="opt dim mono" title={run.id}>
        …{run.id.slice(-8)}
      </td>
    </tr>
  );
}

/** Shown where only the offline model is there: nothing else will work until a provider has a key. */
export function NoModel({ text }: { text: string }) {
  return (
    <div class="notice warn">
      <Icon name="warning" />
      <div>
        <b>{t.runs.noModelTitle}</b>
        <p>{text}</p>
        <Code text={"ANTHROPIC_API_KEY\nOPENAI_API_KEY\nGEMINI_API_KEY"} label={t.runs.noModelTitle} />
      </div>
    </div>
  );
}

function NoRuns({ isFiltered, onOlder }: { isFiltered: boolean; onOlder: (() => void) | undefined }) {
  const models = useResource("models", (signal) => call("GET /v1/models", { signal }));
  if (isFiltered) {
    return (
      <Empty icon="search" title={t.runs.noMatchTitle}>
        <p class="sub">{onOlder ? t.runs.noMatchYet : t.runs.noMatch}</p>
        {onOlder && <Button onClick={onOlder}>{t.runs.searchOlder}</Button>}
        <Button onClick={() => setSearch(new URLSearchParams())}>{t.runs.clearFilters}</Button>
      </Empty>
    );
  }
  const isOffline = models.data.value?.models.every(({ capabilities }) => capabilities.includes("offline"));
  return (
    <Empty icon="runs" title={t.runs.emptyTitle}>
      <p class="sub">{t.runs.empty}</p>
      <Code text={t.runs.emptyCommand} label={t.runs.empty} />
      <ButtonLink icon="plus" kind="primary" to="/runs/new">
        {t.nav.newRun}
      </ButtonLink>
      {isOffline && <NoModel text={t.runs.noModel} />}
    </Empty>
  );
}

export function RunsPage() {
  const filters = fromQuery(query.value);
  const list = useRuns(filters);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [current, setCurrent] = useState(-1);
  const runs = list.runs.value;
  const now = useNow(true);
  const view = viewOf(filters);

  const toggle = (id: string) => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    setPicked(next);
  };
  const at = (index: number) => runs?.[index];
  const move = (step: number) => setCurrent(Math.max(0, Math.min((runs?.length ?? 1) - 1, current + step)));
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => at(current) && toggle(at(current)!.id),
    Enter: () => at(current) && navigate(`/runs/${at(current)!.id}`),
  });
  useEffect(() => {
    const ended = runs?.find(({ finished_at }) => finished_at && Date.now() - Date.parse(finished_at) < TICK_MS);
    if (ended) announce(`${ended.workflow ?? ended.title ?? t.runs.adHoc}: ${t.status[ended.status]}`);
  }, [runs]);

  const shown = runs ?? [];
  const selected = shown.filter(({ id }) => picked.has(id));
  const tags = [...new Set(shown.flatMap(({ tags }) => tags ?? []))].sort();
  const longest = Math.max(60_000, ...shown.map((run) => lengthOf(run, now) ?? 0));
  const columns = t.runs.columns;
  return (
    <main class="main-inner">
      <Bar title={t.nav.runs}>
        <span class={`chip wide state-${list.state.value}`}>
          <span class={`dot ${list.state.value === "live" ? "pulse" : ""}`} />
          {t.runs.states[list.state.value]}
        </span>
        <ButtonLink icon="plus" kind="primary" keys="N" to="/runs/new">
          {t.nav.newRun}
        </ButtonLink>
      </Bar>
      <div class="page">
        <h1 class="vh">{t.nav.runs}</h1>
        <FilterBar filters={filters} tags={tags} />
        {(runs?.length !== 0 || !isEmpty(filters)) && (
          <Histogram filters={filters} onSelect={(time) => setFilters({ ...filters, ...time })} />
        )}
        <section class="card runs runs-list">
          <nav class="tabs" aria-label={t.runs.viewsLabel}>
            {(Object.keys(VIEWS) as View[]).map((one) => (
              <a
                key={one}
                href={href(`/runs?${toQuery(withView(filters, one))}`)}
                aria-current={one === view ? "page" : undefined}
              >
                {t.runs.views[one]}
              </a>
            ))}
          </nav>
          {selected.length > 0 && <SelectionBar runs={selected} onClear={() => setPicked(new Set())} />}
          <Loaded data={runs} error={list.error.value} reload={list.reload} rows={10}>
            {(all) =>
              all.length === 0 ? (
                <NoRuns isFiltered={!isEmpty(filters)} onOlder={list.next.value ? list.older : undefined} />
              ) : (
                <table>
                  <thead>
                    <tr>
                      <th class="pick" scope="col">
                        <label>
                          <input
                            type="checkbox"
                            aria-label={t.runs.selectAll}
                            checked={selected.length === all.length}
                            onChange={() =>
                              setPicked(new Set(selected.length === all.length ? [] : all.map(({ id }) => id)))
                            }
                          />
                        </label>
                      </th>
                      <th scope="col">{columns.status}</th>
                      <th scope="col">{columns.run}</th>
                      <th scope="col" class="opt">
                        {columns.tags}
                      </th>
                      <th scope="col" class="opt">
                        {columns.model}
                      </th>
                      <th scope="col" class="r">
                        {columns.duration}
                      </th>
                      <th scope="col" class="r">
                        {columns.cost}
                      </th>
                      <th scope="col" class="r opt">
                        {columns.created}
                      </th>
                      <th scope="col" class="opt">
                        {columns.id}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {all.map((run, index) => (
                      <Row
                        key={run.id}
                        run={run}
                        now={now}
                        longest={longest}
                        isCurrent={index === current}
                        isSelected={picked.has(run.id)}
                        onSelect={() => toggle(run.id)}
                      />
                    ))}
                  </tbody>
                </table>
              )
            }
          </Loaded>
          {shown.length > 0 && (
            <div class="pager">
              <span class="wide">
                <kbd>J</kbd> <kbd>K</kbd> {t.runs.keys.move} · <kbd>↵</kbd> {t.runs.keys.open} · <kbd>X</kbd>{" "}
                {t.runs.keys.select}
              </span>
              <span class="gap" />
              <MatchingMenu filters={filters} onDone={list.reload} />
              <span>{t.runs.shown(shown.length)}</span>
              {list.next.value && <Button onClick={list.older}>{t.common.older}</Button>}
            </div>
          )}
        </section>
      </div>
    </main>
  );
}
