import type { FieldError } from '../schema/field-error.ts';

interface Subject {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly retryAfterSeconds?: number;
  readonly causes?: readonly {
    readonly reason?: string;
    readonly message?: string;
    readonly field?: string;
  }[];
}

/** An error as Kubernetes clients expect: a `Status` object and an HTTP code. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly code: number;
  readonly reason: string;
  readonly details: StatusDetails | undefined;

  constructor(
    code: number,
    reason: string,
    message: string,
    details?: StatusDetails,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }

  get status() {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      ...(this.reason === '' ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.code,
    };
  }
}

const qualified = (plural: string, group: string): string =>
  group === '' ? plural : `${plural}.${group}`;

export const detailsOf = (
  { group, plural }: Pick<Subject, 'group' | 'plural'>,
  name: string,
): StatusDetails => ({ name, ...(group === '' ? {} : { group }), kind: plural });

const objectError =
  <A extends readonly unknown[]>(
    [code, reason]: readonly [number, string],
    messageOf: (object: string, ...details: A) => string,
  ) =>
  (subject: Subject, name: string, ...details: A): StatusError =>
    new StatusError(
      code,
      reason,
      messageOf(`${qualified(subject.plural, subject.group)} "${name}"`, ...details),
      detailsOf(subject, name),
    );

export const notFound = objectError([404, 'NotFound'], (object) => `${object} not found`);
export const alreadyExists = objectError(
  [409, 'AlreadyExists'],
  (object, { deleting }: { readonly deleting: boolean }) =>
    `${deleting ? 'object is being deleted: ' : ''}${object} already exists`,
);
export const conflict = objectError(
  [409, 'Conflict'],
  (
    object: string,
    why:
      | string
      | undefined = 'the object has been modified; please apply your changes to the latest version and try again',
  ) => `Operation cannot be fulfilled on ${object}: ${why}`,
);

/** Error of a failed precondition of a deletion. Its message names the kind, not the plural. */
export const deletionConflict = (subject: Subject, name: string, why: string): StatusError =>
  conflict({ ...subject, plural: subject.kind }, name, why);

export function invalid(
  { kind, group }: Subject,
  name: string,
  errors: readonly FieldError[],
): StatusError {
  const texts = errors.map(({ field, message }) =>
    field === '' ? message : `${field}: ${message}`,
  );
  const text = texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
  return new StatusError(
    422,
    'Invalid',
    `${qualified(kind, group)} "${name}" is invalid: ${text}`,
    {
      ...detailsOf({ group, plural: kind }, name),
      causes: errors.map(({ reason, message, field }) => ({ reason, message, field })),
    },
  );
}

export const forbidden = (
  { plural, group }: Subject,
  name: string,
  why: string,
  ...causes: readonly FieldError[]
) =>
  new StatusError(403, 'Forbidden', `${qualified(plural, group)} "${name}" is forbidden: ${why}`, {
    ...detailsOf({ plural, group }, name),
    ...(causes.length === 0 ? {} : { causes }),
  });
export const badRequest = (message: string): StatusError =>
  new StatusError(400, 'BadRequest', message);
export const unauthorized = (): StatusError => new StatusError(401, 'Unauthorized', 'Unauthorized');
export const expired = (message: string): StatusError => new StatusError(410, 'Expired', message);
export const noSuchResource = (): StatusError =>
  new StatusError(404, 'NotFound', 'the server could not find the requested resource', {});
export const methodNotAllowed = (): StatusError =>
  new StatusError(
    405,
    'MethodNotAllowed',
    'the server does not allow this method on the requested resource',
    {},
  );
export const notAcceptable = (): StatusError =>
  new StatusError(
    406,
    'NotAcceptable',
    'only the following media types are accepted: application/json',
  );
export const unsupportedMediaType = (accepted: readonly string[]): StatusError =>
  new StatusError(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );
export const tooLarge = (why: string): StatusError =>
  new StatusError(413, 'RequestEntityTooLarge', `Request entity too large: ${why}`);
export const tooLargeVersion = (wanted: number, present: number): StatusError =>
  new StatusError(504, 'Timeout', `Too large resource version: ${wanted}, current: ${present}`, {
    retryAfterSeconds: 1,
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
  });
export const internalError = (cause: unknown): StatusError =>
  new StatusError(
    500,
    'InternalError',
    'Internal error occurred: see the log of the control plane',
    undefined,
    { cause },
  );
