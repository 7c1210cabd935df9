import { ApiError } from '@conversation-operator/kube/errors';
import { FailurePolicy, FailureCode, policyOfCreateError, type Failure } from './failure.ts';

/** Factors of the suffixes of a quantity (apimachinery, pkg/api/resource/suffix.go). */
const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** The value of a Kubernetes quantity, such as 1.5 for `1500m`; NaN for invalid text. */
export function quantityOf(text: string): number {
  const [, digits = '', suffix = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]?|[KMGTPE]i)$/.exec(text) ?? [];
  return digits === '' ? NaN : Number(digits) * (suffix === '' ? 1 : (factors[suffix] ?? NaN));
}

export type CreatedKind = 'pod' | 'volume' | 'sandbox';

export interface CreateError extends Failure {
  /** The API server's text, for administrators in logs and Events; REST clients never see it. */
  readonly serverMessage: string;
}

interface Pattern {
  readonly code: FailureCode | ((match: RegExpExecArray) => FailureCode);
  readonly said: RegExp;
  readonly text: (what: CreatedKind, match: RegExpExecArray) => string;
}

/** The first group of a match, if it can be the name of a Kubernetes object or resource. */
const nameIn = (match: RegExpExecArray): string =>
  /^[a-z0-9][a-z0-9./-]{0,252}$/i.test(match[1] ?? '') ? ` ${match[1] ?? ''}` : '';
/** Returns `requests.cpu, requests.memory` for `requests.cpu=2,requests.memory=4Gi`. */
const keysOf = (list: string): string =>
  list
    .split(',')
    .flatMap((entry) => /^[a-z0-9./-]{1,100}$/.exec(entry.split('=')[0]?.trim() ?? '')?.[0] ?? [])
    .join(', ');

/** Parses `requests.cpu=2,pods=1` to pairs of a resource and its quantity. */
const quantitiesOf = (list: string): ReadonlyMap<string, string> =>
  new Map(
    list.split(',').map((entry): [string, string] => {
      const [resource = '', quantity = ''] = entry.trim().split('=');
      return [resource, quantity];
    }),
  );

/** The resources whose request alone exceeds the limit of the quota. */
function neverFitting(requested: string, limited: string): readonly string[] {
  const limits = quantitiesOf(limited);
  return [...quantitiesOf(requested)].flatMap(([resource, quantity]) => {
    const limit = limits.get(resource);
    return limit !== undefined && quantityOf(quantity) > quantityOf(limit) ? [resource] : [];
  });
}

/**
 * The first pattern that matches applies. The texts are those of Kubernetes' admission plugins
 * (resourcequota, limitranger, podsecurity, webhook, policy/validating, serviceaccount, priority,
 * runtimeclass, namespace/lifecycle), of its authorizer, and of OpenShift's security context
 * constraints.
 */
const patterns: readonly Pattern[] = [
  {
    code: FailureCode.admissionUnavailable,
    said: /failed calling webhook "|admission webhook "[^"]*" does not support dry run/,
    text: (what) =>
      `The cluster could not check the ${what}: one of its admission webhooks does not answer.`,
  },
  {
    code: FailureCode.admissionDenied,
    said: /admission webhook "[^"]*" denied the request/,
    text: (what) => `An admission webhook of the cluster refuses the ${what}.`,
  },
  {
    code: FailureCode.admissionDenied,
    said: /ValidatingAdmissionPolicy '[^']*'.* denied request/,
    text: (what) => `An admission policy of the cluster refuses the ${what}.`,
  },
  {
    code: (match) =>
      neverFitting(match[2] ?? '', match[3] ?? '').length > 0
        ? FailureCode.resourceQuotaTooSmall
        : FailureCode.resourceQuotaExceeded,
    said: /exceeded quota: ([^,]+), requested: (.*), used: .*, limited: ([^\n]*)/,
    text: (what, match) => {
      const tooLarge = neverFitting(match[2] ?? '', match[3] ?? '');
      return tooLarge.length > 0
        ? `The ${what} needs more than the namespace's resource quota${nameIn(match)} allows at all: ${keysOf(tooLarge.join(','))}.`
        : `The namespace's resource quota${nameIn(match)} has no room for the ${what}: ${keysOf(match[2] ?? '')}. The sandbox waits until others of the namespace end, or an administrator raises the quota.`;
    },
  },
  {
    code: FailureCode.resourcesNotSpecified,
    said: /failed quota: ([^:]+): must specify ([^\n]*)/,
    text: (what, match) =>
      `The namespace's resource quota${nameIn(match)} wants the ${what} to state: ${keysOf((match[2] ?? '').replaceAll(/ for: [^;]*;?/g, ','))}.`,
  },
  {
    code: FailureCode.resourceQuotaTooSmall,
    said: /insufficient quota to (?:consume|match)/,
    text: (what) => `No resource quota of the namespace allows the ${what}.`,
  },
  {
    code: FailureCode.resourceQuotaExceeded,
    said: /(?:status unknown|failed) (?:for )?quota|resource quota evaluation timed out|quota usage is negative/,
    text: (what) =>
      `The cluster has not computed yet whether the resource quotas of the namespace have room for the ${what}.`,
  },
  {
    code: FailureCode.limitRangeViolated,
    said: /(?:minimum|maximum) ([a-z0-9./-]+) usage per |([a-z0-9./-]+) max limit to request ratio per |error enforcing limit ranges/,
    text: (what, match) =>
      `The ${what} is outside of the namespace's limit range: ${match[1] ?? match[2] ?? 'resources'}.`,
  },
  {
    code: FailureCode.podSecurityViolated,
    said: /violates PodSecurity "([a-z]+):/,
    text: (_what, match) =>
      `The namespace's pod security standard${nameIn(match)} refuses the pod.`,
  },
  {
    code: FailureCode.podSecurityViolated,
    said: /security context constraint/,
    text: () => 'No security context constraint of the cluster allows the pod.',
  },
  {
    code: FailureCode.namespaceTerminating,
    said: /because it is being terminated/,
    text: () => 'The namespace is being deleted.',
  },
  {
    code: FailureCode.permissionDenied,
    said: /cannot (?:create|patch) resource "[^"]*"/,
    text: (what) => `The operator has no right to create the ${what}.`,
  },
  {
    code: FailureCode.referenceNotFound,
    said: /serviceaccount "?([^"\s]*)"? not found/,
    text: (_what, match) =>
      `The template names a service account that does not exist:${nameIn(match)}.`,
  },
  {
    code: FailureCode.referenceNotFound,
    said: /no PriorityClass with name (\S+) was found/,
    text: (_what, match) =>
      `The template names a priority class that does not exist:${nameIn(match)}.`,
  },
  {
    code: FailureCode.referenceNotFound,
    said: /RuntimeClass "([^"]*)" not found/,
    text: (_what, match) =>
      `The template names a runtime class that does not exist:${nameIn(match)}.`,
  },
];

/** Names the paths of invalid fields, which the template's author has written, but no values. */
function invalidText(what: CreatedKind, { body }: ApiError): string {
  const fields = (body.details?.causes ?? []).flatMap(
    ({ field }) => /^[A-Za-z0-9_.[\]-]{1,120}$/.exec(field ?? '')?.[0] ?? [],
  );
  const named = [...new Set(fields)].slice(0, 5);
  return `The template makes no valid ${what}${named.length === 0 ? '' : `: ${named.join(', ')}`}.`;
}

/** Why the API server rejects an object; undefined if the error is not about the object. */
export function createErrorOf(error: unknown, what: CreatedKind): CreateError | undefined {
  if (
    !(error instanceof ApiError) ||
    error.status === 409 ||
    error.status === 404 ||
    error.status === 429
  )
    return undefined;
  const said = error.message;
  const refused = (
    code: FailureCode,
    message: string,
    policy: FailurePolicy = FailurePolicy.transient,
  ): CreateError => ({ code, message, policy, serverMessage: said });
  for (const { code, said: pattern, text } of patterns) {
    const match = pattern.exec(said);
    if (match === null) continue;
    const found = typeof code === 'string' ? code : code(match);
    return refused(found, text(what, match), policyOfCreateError(found));
  }
  // A template can not cause the rejection of a Sandbox. The cause is an admission policy of the
  // cluster, or another version of the CRDs.
  if (error.status === 403 || (what === 'sandbox' && error.status < 500))
    return refused(FailureCode.creationForbidden, `The cluster refuses the ${what}.`);
  if (error.status === 422 || error.status === 400 || error.status === 413)
    return refused(FailureCode.templateInvalid, invalidText(what, error), FailurePolicy.template);
  return undefined;
}

/** Delay before the next attempt: a quarter of the time since the start, from 1 s to 15 s. */
export const retryAfterMs = (startingForMs: number): number =>
  Math.min(15_000, Math.max(1_000, startingForMs / 4));
