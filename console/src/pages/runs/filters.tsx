// Search and filters of the runs list. They are in the address.
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { listKeys } from "../../api/keys.ts";
import { FINAL, IN_FLIGHT } from "../../model/events.ts";
import { isEmpty, isRunId, PERIODS, toQuery, type RunFilters } from "../../model/filters.ts";
import { dayRange } from "../../model/time.ts";
import { navigate, setSearch } from "../../router.ts";
import { isAdmin } from "../../session.ts";
import { t } from "../../text/en.ts";
import { Button } from "../../ui/basics.tsx";
import { Menu } from "../../ui/dialog.tsx";
import { Icon, type IconName } from "../../ui/icon.tsx";
import { useKeys } from "../../ui/keys.ts";

const STATUSES = [...IN_FLIGHT.filter((status) => status !== "reserving"), ...FINAL];
const TYPING_MS = 250;

/** The time that the list shows, in words. */
function timeText({ since, until }: RunFilters): string {
  const isDate = (text: string) => !Number.isNaN(Date.parse(text));
  if (isDate(since)) return dayRange(since, isDate(until) ? until : undefined);
  return t.runs.periods[since] ?? t.runs.before(isDate(until) ? dayRange(until) : until);
}

export const setFilters = (filters: RunFilters) => setSearch(toQuery(filters), { replace: false });

function Filter({
  name,
  icon,
  value,
  shown,
  options,
  onChoose,
}: {
  name: string;
  icon: IconName;
  value: string;
  shown?: string;
  options: [string, string][];
  onChoose: (value: string) => void;
}) {
  const items = [
    { label: t.common.any, isChecked: value === "", act: () => onChoose("") },
    ...options.map(([one, label]) => ({ label, isChecked: one === value, act: () => onChoose(one) })),
  ];
  return (
    <Menu label={name} class={`filter ${value ? "on" : ""}`} items={items}>
      <Icon name={icon} />
      {name}
      {value && <b>{shown ?? value}</b>}
    </Menu>
  );
}

/** Values to choose from: those of the engine, and those that the runs in sight have. */
function useChoices() {
  const [choices, setChoices] = useState<{ workflows: string[]; models: string[]; keys: [string, string][] }>({
    workflows: [],
    models: [],
    keys: [],
  });
  useEffect(() => {
    const load = async () => {
      const [workflows, { models }, keys] = await Promise.all([
        call("GET /v1/workflows"),
        call("GET /v1/models"),
        isAdmin() ? listKeys() : [],
      ]);
      setChoices({
        workflows: workflows.map(({ name }) => name),
        models: models.map(({ id }) => id),
        keys: keys.map(({ id, name }) => [id, name]),
      });
    };
    // Without the choices the page works as well: a filter then has no values to choose from.
    load().catch(() => undefined);
  }, [isAdmin()]);
  return choices;
}

type SearchField = "q" | "error";

/** Text that is searched for: in title and prompt, or in the error. A run ID opens the run. */
function Search({ filters }: { filters: RunFilters }) {
  const [field, setField] = useState<SearchField>(filters.error ? "error" : "q");
  const [text, setText] = useState(filters[field]);
  const input = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => input.current?.focus() });
  useEffect(() => setText(filters[field]), [filters[field]]);
  useEffect(() => {
    if (text === filters[field]) return;
    const timer = setTimeout(
      () =>
        isRunId(text.trim())
          ? navigate(`/runs/${text.trim()}`)
          : setFilters({ ...filters, q: "", error: "", [field]: text }),
      TYPING_MS,
    );
    return () => clearTimeout(timer);
  }, [text, field]);
  return (
    <div class="field">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        maxLength={200}
        aria-label={t.runs.search[field]}
        title={t.runs.searchHint}
        placeholder={t.runs.search[field]}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <select aria-label={t.runs.searchIn} onChange={(event) => setField(event.currentTarget.value as SearchField)}>
        {(["q", "error"] as const).map((one) => (
          <option key={one} value={one} selected={one === field}>
            {t.runs.searchFields[one]}
          </option>
        ))}
      </select>
    </div>
  );
}

export function FilterBar({ filters, tags }: { filters: RunFilters; tags: string[] }) {
  const choices = useChoices();
  const choose = (name: keyof RunFilters) => (value: string) => setFilters({ ...filters, [name]: value });
  const pairs = (values: string[]) => values.map((value): [string, string] => [value, value]);
  const toggleStatus = (status: string) =>
    setFilters({
      ...filters,
      status: filters.status.includes(status)
        ? filters.status.filter((one) => one !== status)
        : [...filters.status, status],
    });
  const names = t.runs.filters;
  const statusText = filters.status.length > 1 ? String(filters.status.length) : t.status[filters.status[0] ?? ""];
  return (
    <div class="filters" role="search">
      <Search filters={filters} />
      <Menu
        label={names.status}
        class={`filter ${filters.status.length ? "on" : ""}`}
        isSticky
        items={STATUSES.map((status) => ({
          label: t.status[status]!,
          isChecked: filters.status.includes(status),
          act: () => toggleStatus(status),
        }))}
      >
        <Icon name="runs" />
        {names.status}
        {filters.status.length > 0 && <b>{statusText}</b>}
      </Menu>
      <Filter
        name={names.since}
        icon="clock"
        value={filters.since || filters.until}
        shown={timeText(filters)}
        options={PERIODS.map((period) => [period, t.runs.periods[period]!])}
        onChoose={(since) => setFilters({ ...filters, since, until: "" })}
      />
      <Filter
        name={names.workflow}
        icon="workflow"
        value={filters.workflow}
        options={pairs(choices.workflows)}
        onChoose={choose("workflow")}
      />
      <Filter name={names.tag} icon="tag" value={filters.tag} options={pairs(tags)} onChoose={choose("tag")} />
      <Filter
        name={names.model}
        icon="chip"
        value={filters.model}
        options={pairs(choices.models)}
        onChoose={choose("model")}
      />
      {isAdmin() && (
        <Filter
          name={names.key}
          icon="key"
          value={filters.key}
          {...nameOf(choices.keys, filters.key)}
          options={choices.keys}
          onChoose={choose("key")}
        />
      )}
      {!isEmpty(filters) && (
        <Button kind="ghost" icon="cross" onClick={() => setSearch(new URLSearchParams(), { replace: false })}>
          {t.common.clear}
        </Button>
      )}
    </div>
  );
}

const nameOf = (keys: [string, string][], id: string) => {
  const found = keys.find(([one]) => one === id);
  return found ? { shown: found[1] } : {};
};
