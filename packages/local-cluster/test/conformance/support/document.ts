/** The fields of answers that cases read by name; they compare everything else as a whole. */
export interface Meta {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFields[];
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

export interface ManagedFields {
  readonly manager: string;
  readonly operation: string;
  readonly subresource?: string;
  readonly fieldsV1: unknown;
}

export interface Cause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

export interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Meta;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: unknown;
  readonly items: readonly Document[];
  readonly message: string;
  readonly reason: string;
  readonly details: { readonly causes?: readonly Cause[] };
}

/** The causes of a refusal, one line each: `field: reason: message`. */
export const causesOf = ({ details }: Document): readonly string[] =>
  (details.causes ?? []).map(
    ({ field, reason, message }) => `${field ?? ''}: ${reason ?? ''}: ${message ?? ''}`,
  );

export const namesOf = ({ items }: Document): readonly string[] =>
  items.map(({ metadata }) => metadata.name);
