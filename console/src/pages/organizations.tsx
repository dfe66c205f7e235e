// Hosted deployments: the organizations of a person, to choose one or to name the first.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import { t } from "../text/en.ts";
import { Button, ErrorBox, Loaded } from "../ui/basics.tsx";
import { TextField } from "../ui/form.tsx";
import { Icon } from "../ui/icon.tsx";

const texts = t.organizations;

/** The console of an organization is a page of its own: its address is part of every request. */
export const consoleOf = (organization: string) => `/console/o/${organization}/runs`;

function NameOne({ isFirst }: { isFirst: boolean }) {
  const [name, setName] = useState("");
  const [error, setError] = useState<ApiError>();
  const create = (event: Event) => {
    event.preventDefault();
    call("POST /v1/organizations", { body: { name: name.trim() } })
      .then(({ id }) => location.assign(consoleOf(id)))
      .catch((failure: ApiError) => setError(failure));
  };
  return (
    <form class="form" onSubmit={create}>
      {error && error.status !== 400 && <ErrorBox error={error} />}
      <TextField
        label={texts.name}
        hint={isFirst ? texts.nameHint : undefined}
        error={error?.status === 400 ? error.message : undefined}
        value={name}
        autoFocus={isFirst}
        onText={setName}
      />
      <Button type="submit" kind={isFirst ? "primary" : "ghost"} class="wide-button" disabled={!name.trim()}>
        {texts.create}
      </Button>
    </form>
  );
}

export function OrganizationsPage() {
  const organizations = useResource("organizations", (signal) => call("GET /v1/organizations", { signal }));
  useEffect(() => void (document.title = t.title(texts.title)), []);
  return (
    <main class="gate">
      <section class="card organizations">
        <span class="mark large">
          <Icon name="mark" />
        </span>
        <Loaded
          data={organizations.data.value}
          error={organizations.error.value}
          reload={organizations.reload}
          rows={3}
        >
          {(all) => (
            <>
              <div>
                <h1>{all.length ? texts.title : texts.first}</h1>
                <p class="sub">{all.length ? texts.choose : texts.explain}</p>
              </div>
              <ul>
                {all.map(({ id, name, role }) => (
                  <li key={id}>
                    <a class="btn" href={consoleOf(id)}>
                      <b class="t">{name}</b>
                      <span class="gap" />
                      <span class="dim">{role}</span>
                    </a>
                  </li>
                ))}
              </ul>
              <NameOne isFirst={all.length === 0} />
            </>
          )}
        </Loaded>
      </section>
    </main>
  );
}
