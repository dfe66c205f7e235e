// Pages that manage what runs need.
export { BudgetsPage } from "./budgets.tsx";
export { ConnectionsPage } from "./connections.tsx";
export { CreditsPage } from "./credits.tsx";
export { DeliveriesPage } from "./deliveries.tsx";
export { KeysPage } from "./keys.tsx";
export { MembersPage } from "./members.tsx";
export { ModelsPage } from "./models.tsx";
export { SchedulesPage } from "./schedules.tsx";
export { UsagePage } from "./usage.tsx";
export { WorkflowPage } from "./workflow.tsx";
export { WorkflowsPage } from "./workflows.tsx";
