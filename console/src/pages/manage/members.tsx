// People of a hosted organization: members with their roles, and invitations.
import { useState } from "preact/hooks";
import { call, organization, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { until } from "../../model/time.ts";
import { features, isAdmin } from "../../session.ts";
import { t } from "../../text/en.ts";
import { hostedText } from "../../text/hosted.ts";
import { Badge, Button, copyText, Loaded, Time } from "../../ui/basics.tsx";
import { ask, Dialog, Menu, type MenuItem } from "../../ui/dialog.tsx";
import { Select, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Bar } from "../frame.tsx";
import { attempt, FormDialog } from "./common.tsx";

const texts = hostedText.members;
const org = organization ?? "";

function Invite({ onClose, onMade }: { onClose: () => void; onMade: (made: Api.CreatedInvitation) => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Api.MemberRole>("member");
  const submit = async () =>
    onMade(
      await call("POST /v1/organizations/{org}/invitations", { path: { org }, body: { email: email.trim(), role } }),
    );
  return (
    <FormDialog
      title={texts.invite}
      submit={texts.invite}
      isReady={email.includes("@")}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          <TextField label={texts.email} error={messages.get("email")} value={email} onText={setEmail} />
          <Select
            label={texts.role}
            value={role}
            options={Object.entries(texts.roles).map(([value, label]) => ({ value, label }))}
            onChoose={(value) => setRole(value as Api.MemberRole)}
          />
          {features()?.mail === false && <p class="sub">{texts.noMail}</p>}
          {features()?.sign_up === "closed" && <p class="sub">{texts.noSignUp}</p>}
        </>
      )}
    </FormDialog>
  );
}

function Sent({ invitation, onClose }: { invitation: Api.CreatedInvitation; onClose: () => void }) {
  return (
    <Dialog title={texts.sentTitle} onClose={onClose} isModal>
      <div class="form">
        <p class="sub">{invitation.email_delivery === "accepted" ? texts.mailed : texts.notMailed}</p>
        <pre class="code" tabIndex={0} aria-label={texts.sentTitle}>
          {invitation.url}
        </pre>
        <footer>
          <Button icon="copy" onClick={() => void copyText(invitation.url)}>
            {t.common.copy}
          </Button>
          <Button kind="primary" onClick={onClose}>
            {texts.done}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}

export function MembersPage() {
  const path = { org };
  const members = useResource("members", (signal) => call("GET /v1/organizations/{org}/members", { path, signal }));
  const invitations = useResource("invitations", (signal) =>
    call("GET /v1/organizations/{org}/invitations", { path, signal }),
  );
  const [isInviting, setInviting] = useState(false);
  const [sent, setSent] = useState<Api.CreatedInvitation>();
  const setRole = (id: string, role: Api.MemberRole) =>
    attempt(call("PATCH /v1/organizations/{org}/members/{id}", { path: { org, id }, body: { role } }), members.reload);
  const remove = ({ id, name, email }: Api.OrganizationMember) =>
    ask({
      title: texts.removeTitle(name || email),
      explain: texts.removeExplain,
      confirm: texts.remove,
      act: () => attempt(call("DELETE /v1/organizations/{org}/members/{id}", { path: { org, id } }), members.reload),
    });
  const actions = (member: Api.OrganizationMember): MenuItem[] => [
    member.role === "admin"
      ? { label: texts.makeMember, icon: "key", act: () => void setRole(member.id, "member") }
      : { label: texts.makeAdmin, icon: "key", act: () => void setRole(member.id, "admin") },
    { label: texts.remove, icon: "trash", isDangerous: true, act: () => remove(member) },
  ];
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        {isAdmin() && (
          <Button icon="plus" kind="primary" onClick={() => setInviting(true)}>
            {texts.invite}
          </Button>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <section class="card">
          <Loaded data={members.data.value} error={members.error.value} reload={members.reload}>
            {(all) => (
              <ul class="list people">
                {all.map((member) => (
                  <li key={member.id}>
                    <b>{member.name || member.email}</b>
                    <span class="dim t">{member.name ? member.email : ""}</span>
                    <Badge look={member.role === "member" ? "idle" : "warn"} icon="key">
                      {member.role}
                    </Badge>
                    {member.role !== "owner" && (
                      <Menu label={`${t.common.moreActions}: ${member.email}`} items={actions(member)}>
                        <Icon name="more" />
                      </Menu>
                    )}
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
        </section>
        {invitations.data.value && invitations.data.value.length > 0 && (
          <section class="card">
            <header>
              <h2>{texts.invited}</h2>
            </header>
            <ul class="list people">
              {invitations.data.value.map(({ id, email, role, expires_at }) => (
                <li key={id}>
                  <b>{email}</b>
                  <span class="dim t">
                    {role} · <Time at={expires_at}>{texts.expires(until(expires_at, Date.now()))}</Time>
                  </span>
                  <Button
                    kind="ghost"
                    onClick={() =>
                      void attempt(
                        call("DELETE /v1/organizations/{org}/invitations/{id}", { path: { org, id } }),
                        invitations.reload,
                      )
                    }
                  >
                    {texts.withdraw}
                  </Button>
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
      {isInviting && (
        <Invite
          onClose={() => setInviting(false)}
          onMade={(made) => {
            setSent(made);
            invitations.reload();
          }}
        />
      )}
      {sent && <Sent invitation={sent} onClose={() => setSent(undefined)} />}
    </main>
  );
}
