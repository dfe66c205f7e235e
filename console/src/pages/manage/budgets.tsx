// Budgets that cap what many runs cost together.
import { useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money, parseMoney, plainMoney } from "../../model/money.ts";
import { until } from "../../model/time.ts";
import { isAdmin } from "../../session.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { newText } from "../../text/new.ts";
import { Button, Empty, Loaded, Meter, Time } from "../../ui/basics.tsx";
import { ask, Menu } from "../../ui/dialog.tsx";
import { Segments, Select, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Bar } from "../frame.tsx";
import { attempt, FormDialog } from "./common.tsx";

const texts = manageText.budgets;

/** "Workflow price-watch" for `workflow:price-watch`. */
function scopeName(scope: string): string {
  const [kind = "", ...name] = scope.split(":");
  return [texts.scopes[kind] ?? kind, name.join(":")].filter(Boolean).join(" ");
}

function Editor({
  budget,
  onClose,
  onSaved,
}: {
  budget: Api.Budget | undefined;
  onClose: () => void;
  onSaved: () => void;
}) {
  const [kind, setKind] = useState("organization");
  const [name, setName] = useState("");
  const [period, setPeriod] = useState<Api.BudgetPeriod>(budget?.period ?? "month");
  const [limit, setLimit] = useState(budget ? plainMoney(budget.limit_micros) : "");
  const micros = parseMoney(limit);
  const scope = budget?.scope ?? (kind === "organization" ? kind : `${kind}:${name.trim()}`);
  const submit = async () => {
    await call("PUT /v1/budgets/{scope}", { path: { scope }, body: { limit_micros: micros ?? 0, period } });
    onSaved();
  };
  return (
    <FormDialog
      title={budget ? scopeName(budget.scope) : texts.new}
      submit={t.common.save}
      isReady={micros !== undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          {!budget && (
            <Select
              label={texts.scope}
              error={messages.get("scope")}
              value={kind}
              options={Object.entries(texts.scopes).map(([value, label]) => ({ value, label }))}
              onChoose={setKind}
            />
          )}
          {!budget && kind !== "organization" && <TextField label={texts.scopeName} value={name} onText={setName} />}
          <TextField
            label={texts.limit}
            error={limit && micros === undefined ? newText.notMoney : messages.get("limit_micros")}
            inputMode="decimal"
            value={limit}
            placeholder="$50"
            onText={setLimit}
          />
          <div>
            <span class="lab">{texts.period}</span>
            <Segments
              label={texts.period}
              value={period}
              options={[
                ["day", texts.periods.day!],
                ["month", texts.periods.month!],
              ]}
              onChoose={setPeriod}
            />
          </div>
        </>
      )}
    </FormDialog>
  );
}

export function BudgetsPage() {
  const budgets = useResource("budgets", (signal) => call("GET /v1/budgets", { signal }), 30_000);
  const [edited, setEdited] = useState<{ budget: Api.Budget | undefined }>();
  const remove = ({ scope }: Api.Budget) =>
    ask({
      title: texts.deleteTitle(scopeName(scope)),
      explain: texts.deleteExplain,
      confirm: t.common.delete,
      act: () => attempt(call("DELETE /v1/budgets/{scope}", { path: { scope } }), budgets.reload),
    });
  const create = isAdmin() && (
    <Button icon="plus" kind="primary" onClick={() => setEdited({ budget: undefined })}>
      {texts.new}
    </Button>
  );
  return (
    <main class="main-inner">
      <Bar title={texts.title}>{create}</Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <section class="card">
          <Loaded data={budgets.data.value} error={budgets.error.value} reload={budgets.reload}>
            {(all) =>
              all.length === 0 ? (
                <Empty icon="budget" title={texts.emptyTitle}>
                  <p class="sub">{texts.empty}</p>
                  {create}
                </Empty>
              ) : (
                <ul class="budgets">
                  {all.map((budget) => (
                    <li key={budget.scope}>
                      <div>
                        <b>{scopeName(budget.scope)}</b>{" "}
                        <span class="dim">{texts.per(texts.periods[budget.period]!)}</span>
                        <span class="gap" />
                        <span class="num sub">
                          {texts.spent(
                            money(budget.spent_micros),
                            money(budget.held_micros),
                            plainMoney(budget.limit_micros),
                          )}
                        </span>
                        {isAdmin() && (
                          <Menu
                            label={`${t.common.moreActions}: ${scopeName(budget.scope)}`}
                            items={[
                              { label: t.common.edit, icon: "edit", act: () => setEdited({ budget }) },
                              { label: t.common.delete, icon: "trash", isDangerous: true, act: () => remove(budget) },
                            ]}
                          >
                            <Icon name="more" />
                          </Menu>
                        )}
                      </div>
                      <Meter
                        label={texts.meter(scopeName(budget.scope))}
                        used={budget.spent_micros}
                        held={budget.held_micros}
                        whole={budget.limit_micros}
                      />
                      <p class="dim">
                        {texts.left(money(budget.available_micros))} ·{" "}
                        <Time at={budget.resets_at}>{texts.resets(until(budget.resets_at, Date.now()))}</Time>
                      </p>
                    </li>
                  ))}
                </ul>
              )
            }
          </Loaded>
        </section>
      </div>
      {edited && <Editor budget={edited.budget} onClose={() => setEdited(undefined)} onSaved={budgets.reload} />}
    </main>
  );
}
