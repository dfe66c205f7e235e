// The list of workflows.
import { call } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money } from "../../model/money.ts";
import { age } from "../../model/time.ts";
import { href, navigate } from "../../router.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { ButtonLink, Chip, Empty, Loaded, Time } from "../../ui/basics.tsx";
import { Bar } from "../frame.tsx";

const texts = manageText.workflows;

export function WorkflowsPage() {
  const workflows = useResource("workflows", (signal) =>
    call("GET /v1/workflows", { query: { detail: true }, signal }),
  );
  const { columns } = texts;
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        <ButtonLink icon="plus" kind="primary" to="/workflows/new">
          {texts.new}
        </ButtonLink>
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <section class="card runs">
          <Loaded data={workflows.data.value} error={workflows.error.value} reload={workflows.reload}>
            {(all) =>
              all.length === 0 ? (
                <Empty icon="workflow" title={texts.emptyTitle}>
                  <p class="sub">{texts.empty}</p>
                  <ButtonLink icon="plus" kind="primary" to="/workflows/new">
                    {texts.new}
                  </ButtonLink>
                </Empty>
              ) : (
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{columns.name}</th>
                      <th scope="col" class="opt">
                        {columns.input}
                      </th>
                      <th scope="col" class="opt">
                        {columns.model}
                      </th>
                      <th scope="col" class="r opt">
                        {columns.runs}
                      </th>
                      <th scope="col" class="r">
                        {columns.cost}
                      </th>
                      <th scope="col" class="r opt">
                        {columns.updated}
                      </th>
                      <th scope="col">
                        <span class="vh">{texts.run}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {all.map(
                      ({ name, description, revision, model, input_schema, runs_30d, cost_30d_micros, updated_at }) => (
                        <tr
                          key={name}
                          onClick={(event) => (event.target as Element).closest("a") ?? navigate(`/workflows/${name}`)}
                        >
                          <td class="name-cell">
                            <a class="name" href={href(`/workflows/${name}`)}>
                              <b>
                                {name} {revision && <span class="dim revision">{texts.revision(revision)}</span>}
                              </b>
                              <span>{description}</span>
                            </a>
                          </td>
                          <td class="opt">{input_schema && <Chip>{texts.typed}</Chip>}</td>
                          <td class="opt sub">{model}</td>
                          <td class="r opt">{runs_30d?.toLocaleString("en-US")}</td>
                          <td class="r">{cost_30d_micros === undefined ? "" : money(cost_30d_micros)}</td>
                          <td class="r opt dim">
                            {updated_at && (
                              <Time at={updated_at}>{t.common.ago(age(Date.now() - Date.parse(updated_at)))}</Time>
                            )}
                          </td>
                          <td class="r">
                            <ButtonLink icon="play" kind="ghost" to={`/runs/new?workflow=${name}`}>
                              {texts.run}
                            </ButtonLink>
                          </td>
                        </tr>
                      ),
                    )}
                  </tbody>
                </table>
              )
            }
          </Loaded>
        </section>
      </div>
    </main>
  );
}
