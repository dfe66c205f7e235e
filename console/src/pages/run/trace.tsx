// The trace: turns with their calls, one row each, with a bar on the time axis.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { lengthOf, type Fold, type Span, type SpanKind } from "../../model/fold.ts";
import { money } from "../../model/money.ts";
import { isFinal } from "../../model/events.ts";
import type { Scale } from "../../model/scale.ts";
import { isFiltered, isTop, type TraceFilter } from "../../model/spans.ts";
import { duration } from "../../model/time.ts";
import { query, setQuery, setSearch } from "../../router.ts";
import { runText } from "../../text/run.ts";
import { Button } from "../../ui/basics.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Toggle } from "../../ui/form.tsx";
import { Rows } from "../../ui/rows.tsx";
import { visible } from "../../model/ansi.ts";
import { COLOURS, iconOf, labelOf } from "./labels.ts";
import { clearFilter, select } from "./view.ts";

const ROW = 32;
const ROW_PHONE = 44;
const KINDS: SpanKind[] = ["turn", "tool", "connection", "retry", "artifact", "note"];
const phone = matchMedia("(max-width: 760px)");

export function Glyph({ span }: { span: Span }) {
  const colour = COLOURS[span.kind];
  return (
    <span class={`glyph ${colour ? "" : "line"}`} style={colour ? { background: colour } : {}}>
      <Icon name={iconOf(span)} />
    </span>
  );
}

interface RowProps {
  span: Span;
  index: number;
  now: number;
  scale: Scale;
  isLive: boolean;
  isSelected: boolean;
  isCollapsed: boolean;
  hasCalls: boolean;
  onToggle: () => void;
}

function Row({ span, index, now, scale, isLive, isSelected, isCollapsed, hasCalls, onToggle }: RowProps) {
  const { name, code, detail } = labelOf(span);
  const isPoint = span.end === span.start;
  const left = scale.at(span.start);
  const width = scale.at(span.end ?? now) - left;
  const look =
    span.kind === "queue"
      ? "q"
      : span.kind === "retry"
        ? "retry"
        : span.end === undefined
          ? "go"
          : isPoint
            ? "point"
            : "";
  const isTurn = span.kind === "turn";
  return (
    <div
      class={`row ${isTurn ? "turn" : isTop(span) ? "" : "step"} ${span.isFailed || span.kind === "retry" ? "bad" : ""}`}
      role="row"
      aria-rowindex={index + 1}
      aria-selected={isSelected}
      onClick={() => select(span.id)}
    >
      <span class="id" role="cell">
        {span.id}
      </span>
      <span class="what" role="cell">
        {isTurn && hasCalls ? (
          <button
            type="button"
            class="fold"
            aria-expanded={!isCollapsed}
            aria-label={isCollapsed ? runText.trace.expand : runText.trace.collapse}
            onClick={(event) => {
              event.stopPropagation();
              onToggle();
            }}
          >
            <Icon name={isCollapsed ? "right" : "down"} />
          </button>
        ) : (
          <span class="fold" />
        )}
        <Glyph span={span} />
        <span class="t">
          {name} {code && <span class="mono">{code}</span>} {detail && <span class="dim">{detail}</span>}
        </span>
        {span.isFailed && <span class="vh">{runText.error}</span>}
      </span>
      <span class="d" role="cell">
        {isPoint ? "" : duration(lengthOf(span, now))}
      </span>
      <span class="c" role="cell">
        {span.costMicros ? money(span.costMicros) : ""}
      </span>
      <span class="wf" role="cell" aria-hidden="true">
        {isLive && <span class="now" style={{ left: `${scale.at(now) * 100}%` }} />}
        <i
          class={look}
          style={{
            left: `${left * 100}%`,
            width: `${Math.max(0, width) * 100}%`,
            background: look ? undefined : COLOURS[span.kind],
          }}
        />
      </span>
    </div>
  );
}

function FilterRow({ filter, shown, all }: { filter: TraceFilter; shown: number; all: number }) {
  const texts = runText.trace;
  const setKinds = (kinds: SpanKind[]) => {
    const next = new URLSearchParams(query.value);
    next.delete("kind");
    for (const kind of kinds) next.append("kind", kind);
    setSearch(next);
  };
  return (
    <div class="tools filter-row">
      <label class="field">
        <Icon name="search" />
        <input
          type="search"
          aria-label={texts.filterText}
          placeholder={texts.filterText}
          value={filter.text}
          autoFocus
          onInput={(event) => setQuery({ find: event.currentTarget.value || undefined })}
        />
      </label>
      {KINDS.map((kind) => {
        const isOn = filter.kinds.includes(kind);
        return (
          <Toggle
            key={kind}
            isOn={isOn}
            onChange={() => setKinds(isOn ? filter.kinds.filter((one) => one !== kind) : [...filter.kinds, kind])}
          >
            {texts.kinds[kind as keyof typeof texts.kinds]}
          </Toggle>
        );
      })}
      <Toggle
        isOn={filter.failedOnly}
        icon="warning"
        onChange={(isOn) => setQuery({ failures: isOn ? "" : undefined })}
      >
        {texts.failedOnly}
      </Toggle>
      {filter.tool !== undefined && (
        <Toggle isOn onChange={() => setQuery({ tool: undefined })}>
          {filter.tool}
        </Toggle>
      )}
      <span class="num">{texts.shown(shown, all)}</span>
      {isFiltered(filter) && (
        <Button kind="ghost" icon="cross" onClick={clearFilter}>
          {texts.clear}
        </Button>
      )}
    </div>
  );
}

interface TraceProps {
  fold: Fold;
  rows: Span[];
  now: number;
  scale: Scale;
  filter: TraceFilter;
  selected: Span | undefined;
  collapsed: ReadonlySet<number>;
  onToggle: (step: number) => void;
  isFilterOpen: boolean;
  onFilter: () => void;
  isFollowing: boolean;
  onScrollAway: () => void;
  onFollow: () => void;
  newEvents: number;
  onZoom?: (() => void) | undefined;
  onWhole?: (() => void) | undefined;
  chip: ComponentChildren;
}

export function Trace(props: TraceProps) {
  const { fold, rows, now, scale, filter, selected, collapsed, isFilterOpen, newEvents } = props;
  const [isPhone] = useState(phone.matches);
  const texts = runText.trace;
  const withCalls = new Set(fold.spans.filter((span) => !isTop(span)).map(({ step }) => step));
  const { live } = fold;
  return (
    <section class="trace" aria-label={runText.tabs.trace}>
      <div class="tools">
        <span class="legend" aria-hidden="true">
          <span>
            <i class="model" />
            {texts.legend.model}
          </span>
          <span>
            <i class="tool" />
            {texts.legend.tool}
          </span>
          <span>
            <i class="connection" />
            {texts.legend.connection}
          </span>
        </span>
        <span class="gap" />
        {props.onZoom && (
          <Button kind="ghost" class="small" onClick={props.onZoom}>
            {runText.map.zoom}
          </Button>
        )}
        {props.onWhole && (
          <Button kind="ghost" class="small" onClick={props.onWhole}>
            {runText.map.whole}
          </Button>
        )}
        {props.chip}
        <Button kind="ghost" class="small" icon="filter" keys="F" aria-expanded={isFilterOpen} onClick={props.onFilter}>
          {texts.filter}
        </Button>
      </div>
      {(isFilterOpen || isFiltered(filter)) && (
        <FilterRow filter={filter} shown={rows.length} all={fold.spans.length} />
      )}
      <Rows
        rows={rows}
        rowHeight={isPhone ? ROW_PHONE : ROW}
        label={texts.label}
        isFollowing={props.isFollowing}
        onScrollAway={props.onScrollAway}
        shown={selected ? rows.indexOf(selected) : -1}
        render={(span, index) => (
          <Row
            key={span.id}
            span={span}
            index={index}
            now={now}
            scale={scale}
            isLive={!isFinal(fold.status)}
            isSelected={span === selected}
            isCollapsed={collapsed.has(span.step)}
            hasCalls={withCalls.has(span.step)}
            onToggle={() => props.onToggle(span.step)}
          />
        )}
      >
        {rows.length === 0 && <p class="none dim">{fold.spans.length ? texts.none : texts.empty}</p>}
        {live && !isFiltered(filter) && (
          <div class="live-turn">
            <p class="what">
              <span class="fold" />
              <span class="glyph" style={{ background: COLOURS.turn }}>
                <Icon name="model" />
              </span>
              <b>{texts.turn(live.step)}</b> <span class="dim">· {live.text ? texts.writing : texts.calling}</span>
            </p>
            <div class="say live">{visible(live.text.slice(-4000))}</div>
          </div>
        )}
        {newEvents > 0 && (
          <div class="stick">
            <Button icon="down" onClick={props.onFollow}>
              {runText.newEvents(newEvents)}
            </Button>
          </div>
        )}
      </Rows>
    </section>
  );
}
