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
  kind: "charge" | "purchase" | "refund" | "refund_failed" | "dispute" | "dispute_won" | "grant" | "correction";
  amount_micros: number;
  description: string;
  created_at: Timestamp;
  run_id?: string;
  payment_id?: string;
}

export interface LedgerPage {
  ledger: LedgerEntry[];
  next_cursor: string;
}

export interface AutoTopup {
  enabled: boolean;
  threshold_cents: number | null;
  amount_cents: number | null;
  payment_method_saved: boolean;
  last_topup_status: "processing" | "succeeded" | "failed" | "requires_action" | null;
}

export interface PutAutoTopup {
  enabled: boolean;
  threshold_cents?: number;
  amount_cents?: number;
  consent?: boolean;
}

export interface PaymentMethod {
  brand: string;
  last4: string;
  exp_month: number;
  exp_year: number;
}

export interface Billing {
  balance_micros: number;
  reserved_micros: number;
  available_micros: number;
  ledger: LedgerEntry[];
  purchase_limits: { min_amount_cents: number; max_amount_cents: number; min_threshold_cents: number };
  auto_topup: AutoTopup;
  payment_method: PaymentMethod | null;
}

export interface Payment {
  id: string;
  amount_cents: number;
  refunded_cents: number;
  disputed_cents: number;
  refund_status: "none" | "partial" | "full";
  created_at: Timestamp;
}

export interface PaymentPage {
  payments: Payment[];
  next_cursor: string;
}

/** A page of the payment provider. */
export interface ProviderPage {
  url: string;
}
