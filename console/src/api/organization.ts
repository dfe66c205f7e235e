// Types of the organization API of a hosted deployment, whose document is separate.
import type { Role, Timestamp } from "./schema";

export interface Organization {
  id: string;
  name: string;
  role: Role;
}

export interface OrganizationMember {
  id: string;
  email: string;
  name: string;
  role: Role;
  avatar_url?: string;
}

export type MemberRole = "member" | "admin";

export interface Invitation {
  id: string;
  email: string;
  role: Role;
  created_at: Timestamp;
  expires_at: Timestamp;
}

/** The only answer that has the address of an invitation. */
export interface CreatedInvitation extends Invitation {
  url: string;
  email_delivery: string;
}

export interface LedgerEntry {
  amount_micros: number;
  description: string;
  created_at: Timestamp;
  run_id?: string;
}

export interface Billing {
  balance_micros: number;
  reserved_micros: number;
  available_micros: number;
  ledger: LedgerEntry[];
  purchase_limits: { min_amount_cents: number; max_amount_cents: number };
  stripe_configured: boolean;
}
