// The organization API of a hosted deployment.
import { json } from "./answers.mjs";

export function organizations(method, path, body, data, response) {
  const [, , organization, area, id] = path.split("/");
  if (!organization) {
    if (method === "GET") return json(response, 200, data.organizations);
    data.organizations.push({ ...body, id: "org_new", role: "owner" });
    return json(response, 201, data.organizations.at(-1));
  }
  if (method === "DELETE") return json(response, 204);
  if (area === "keys" && method === "POST")
    return json(response, 201, { ...body, id, key: "stk_4f9d0c2ab7e84c6f9a1e" });
  if (area === "keys") return json(response, 200, data.keys);
  if (area === "members") return json(response, 200, data.members);
  if (area === "invitations" && method === "POST") {
    const url = "https://accounts.example.com/invitations/accept?token=sti_example";
    const invitation = { ...body, id: "inv_2", expires_at: data.invitations[0].expires_at };
    data.invitations.push(invitation);
    return json(response, 201, { ...invitation, url, email_delivery: "unavailable" });
  }
  if (area === "invitations") return json(response, 200, data.invitations);
  if (id === "checkout") return json(response, 200, { url: "/checkout" });
  json(response, 200, data.billing);
}
