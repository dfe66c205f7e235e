// The catalogue of models with their prices, and what many runs like one of yours would cost.
import { useState } from "preact/hooks";
import { ApiError, call, type Api } from "../../api/client.ts";
import { loadModels } from "../../api/models.ts";
import { useResource } from "../../api/resource.ts";
import { money, pricePerMillion } from "../../model/money.ts";
import { count } from "../../model/time.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Button, Chip, Loaded } from "../../ui/basics.tsx";
import { TextField } from "../../ui/form.tsx";
import { Bar } from "../frame.tsx";
import { NoModel } from "../runs/index.tsx";

const texts = manageText.models;
const RUNS = 1000;

const costOf = ({ prices }: Api.ModelInfo, usage: Api.RunUsage) =>
  (RUNS *
    (usage.input_tokens * prices.input_micros_per_mtok +
      usage.output_tokens * prices.output_micros_per_mtok +
      usage.cache_read_tokens * prices.cache_read_micros_per_mtok +
      usage.cache_write_tokens * prices.cache_write_micros_per_mtok)) /
  1_000_000;

export function ModelsPage() {
  const catalogue = useResource("models", loadModels);
  const [id, setId] = useState("");
  const [usage, setUsage] = useState<Api.RunUsage>();
  const [error, setError] = useState<string>();
  const { columns } = texts;
  const estimate = (event: Event) => {
    event.preventDefault();
    call("GET /v1/runs/{id}", { path: { id: id.trim() }, query: { output: false } })
      .then((run) => {
        setUsage(run.usage);
        setError(undefined);
      })
      .catch((failure: ApiError) => setError(failure.message));
  };
  return (
    <main class="main-inner">
      <Bar title={texts.title} />
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Loaded data={catalogue.data.value} error={catalogue.error.value} reload={catalogue.reload}>
          {({ models, default_model }) => (
            <>
              {models.every(({ capabilities }) => capabilities.includes("offline")) && (
                <NoModel text={texts.onlyOffline} />
              )}
              <section class="card scroll">
                <header>
                  <h2>{texts.per}</h2>
                </header>
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{columns.model}</th>
                      <th scope="col" class="opt">
                        {columns.provider}
                      </th>
                      {[columns.input, columns.output].map((name) => (
                        <th key={name} scope="col" class="r">
                          {name}
                        </th>
                      ))}
                      {[columns.cached, columns.context].map((name) => (
                        <th key={name} scope="col" class="r opt">
                          {name}
                        </th>
                      ))}
                      {usage && (
                        <th scope="col" class="r">
                          {texts.estimateColumn}
                        </th>
                      )}
                      <th scope="col" class="opt">
                        {columns.capabilities}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {models.map((model) => {
                      const {
                        input_micros_per_mtok: input,
                        output_micros_per_mtok: output,
                        cache_read_micros_per_mtok: cached,
                      } = model.prices;
                      const price = (micros: number) => (input || output ? pricePerMillion(micros) : texts.free);
                      return (
                        <tr key={model.id}>
                          <td>
                            <b>{model.id}</b>{" "}
                            {model.id === default_model && (
                              <Badge look="ok" icon="check">
                                {texts.default}
                              </Badge>
                            )}
                          </td>
                          <td class="opt sub">{model.provider}</td>
                          <td class="r">{price(input)}</td>
                          <td class="r">{price(output)}</td>
                          <td class="r opt">{price(cached)}</td>
                          <td class="r opt">{count(model.context_window)}</td>
                          {usage && (
                            <td class="r">
                              <b>{money(costOf(model, usage))}</b>
                            </td>
                          )}
                          <td class="opt chips">
                            {model.capabilities.map((one) => (
                              <Chip key={one}>{one.replaceAll("_", " ")}</Chip>
                            ))}
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              </section>
            </>
          )}
        </Loaded>
        <section class="card">
          <header>
            <h2>{texts.estimate}</h2>
          </header>
          <form class="form" onSubmit={estimate}>
            <div class="load">
              <TextField
                label={texts.estimateHint}
                error={error}
                hint={
                  usage &&
                  texts.estimateTokens(
                    count(usage.input_tokens),
                    count(usage.cache_read_tokens),
                    count(usage.output_tokens),
                  )
                }
                value={id}
                placeholder="run_…"
                onText={setId}
              />
              <Button type="submit" disabled={!id.trim()}>
                {t.common.apply}
              </Button>
            </div>
          </form>
        </section>
      </div>
    </main>
  );
}
