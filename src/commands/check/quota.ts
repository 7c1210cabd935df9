import { FailureCode } from '../../controllers/sandbox/failure.ts';
import { type CreateError, quantityOf } from '../../controllers/sandbox/create-error.ts';
import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';
import { group } from '../../resources/group.ts';
import { errorOf, FindingCode, outcomeOf, type Finding, type Check, type DryRun } from './check.ts';
import { breaksOf, refusalFinding } from './dry-run.ts';
import { limitRanges, resourceQuotas, type ResourceQuota } from './resources.ts';

export const quotaCodes: ReadonlySet<string> = new Set([
  FailureCode.resourceQuotaExceeded,
  FailureCode.resourceQuotaTooSmall,
  FailureCode.resourcesNotSpecified,
  FailureCode.limitRangeViolated,
]);

type Needs = ReadonlyMap<string, number>;

/** Resources that one conversation with its sandbox takes of quotas, by their names in quotas. */
export function needsOf(
  pod: Pick<Pod, 'spec'>,
  claim: Pick<PersistentVolumeClaim, 'spec'> | undefined,
): Needs {
  const needs = new Map<string, number>([
    ...['pods', 'count/pods', 'persistentvolumeclaims', 'count/persistentvolumeclaims'].map(
      (name) => [name, 1] as const,
    ),
    ...['conversations', 'sandboxes'].map((plural) => [`count/${plural}.${group}`, 1] as const),
  ]);
  const add = (name: string, text: string | undefined) => {
    if (text !== undefined) needs.set(name, (needs.get(name) ?? 0) + quantityOf(text));
  };
  for (const { resources } of pod.spec?.containers ?? []) {
    for (const [name, text] of Object.entries(resources?.requests ?? {})) {
      add(`requests.${name}`, text);
      add(name, text);
    }
    for (const [name, text] of Object.entries(resources?.limits ?? {})) add(`limits.${name}`, text);
  }
  const storage = claim?.spec?.resources?.requests?.['storage'];
  add('requests.storage', storage);
  const storageClass = claim?.spec?.storageClassName;
  if (storageClass !== undefined)
    add(`${storageClass}.storageclass.storage.k8s.io/requests.storage`, storage);
  return needs;
}

/** A resource of a quota that has no room for one sandbox. */
interface Full {
  readonly quota: string;
  readonly resource: string;
  readonly hard: string;
  readonly used: string;
  /** Whether one sandbox needs more than the whole quota has, so that no wait helps. */
  readonly isTooSmall: boolean;
}

/** Quotas with scopes count some pods only, which the dry run knows. */
const countsAll = ({ spec }: ResourceQuota): boolean =>
  (spec?.scopes ?? []).length === 0 && spec?.scopeSelector === undefined;

/** How many more sandboxes the quotas have room for, and what is full. */
export function roomIn(
  quotas: readonly ResourceQuota[],
  needs: Needs,
): { readonly sandboxes: number; readonly full: readonly Full[] } {
  let sandboxes = Infinity;
  const full: Full[] = [];
  for (const quota of quotas.filter(countsAll))
    for (const [resource, hard] of Object.entries(quota.spec?.hard ?? {})) {
      const need = needs.get(resource);
      if (need === undefined || need === 0) continue;
      const used = quota.status?.used?.[resource] ?? '0';
      const whole = quantityOf(hard);
      const room = Math.floor((whole - quantityOf(used)) / need);
      sandboxes = Math.min(sandboxes, Math.max(0, room));
      const isTooSmall = need > whole;
      if (room < 1) full.push({ quota: quota.metadata.name, resource, hard, used, isTooSmall });
    }
  return { sandboxes, full };
}

export interface QuotaFacts {
  readonly namespace: string;
  readonly quotas: readonly ResourceQuota[];
  readonly dryRun: Pick<DryRun, 'sent' | 'pod' | 'claim'> & {
    readonly errors: readonly CreateError[];
  };
}

/** Pure. The dry run knows less than the quotas while another sandbox is on its way. */
export function quotaFindings(facts: QuotaFacts): readonly Finding[] {
  const { namespace, quotas, dryRun } = facts;
  const { full } = roomIn(quotas, needsOf(dryRun.pod ?? dryRun.sent, dryRun.claim));
  const refused = dryRun.errors.filter(({ code }) => quotaCodes.has(code));
  const mends: Readonly<Record<string, string>> = {
    [FailureCode.resourceQuotaExceeded]: `kubectl -n ${namespace} edit resourcequota # raise it, or pause sandboxes`,
    [FailureCode.resourceQuotaTooSmall]: `kubectl -n ${namespace} edit resourcequota # raise it, or let sandboxes need less by defaultTemplate.resources and storage.size of the chart`,
    [FailureCode.resourcesNotSpecified]: `kubectl -n ${namespace} create -f - <<<'{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"defaults"},"spec":{"limits":[{"type":"Container","default":{"cpu":"2","memory":"2Gi"}}]}}'`,
    [FailureCode.limitRangeViolated]: `kubectl -n ${namespace} edit limitrange # or defaultTemplate.resources and storage.size of the chart`,
  };
  const byName = Map.groupBy(full, ({ quota }) => quota);
  const codeOf = (of: readonly Full[]) =>
    of.some(({ isTooSmall }) => isTooSmall)
      ? FindingCode.resourceQuotaTooSmall
      : FindingCode.resourceQuotaExceeded;
  const found: ReadonlySet<string> = new Set([...byName.values()].map(codeOf));
  return [
    ...[...byName].map(([quota, of]) => {
      const hard = Object.fromEntries(
        of.map(({ resource }) => [resource, `NEW-${resource.replaceAll(/[^a-z]/gi, '-')}`]),
      );
      const code = codeOf(of);
      return errorOf(code, {
        cause: `The resource quota ${quota} of the namespace ${namespace} has no room for one sandbox: ${of.map(({ resource, used, hard: limit }) => `${resource} ${used} of ${limit}`).join(', ')}.`,
        breaks: breaksOf(code),
        mend: `kubectl -n ${namespace} patch resourcequota ${quota} --type=merge -p '${JSON.stringify({ spec: { hard } })}'`,
      });
    }),
    ...refused
      .filter(({ code }) => !found.has(code))
      .filter(({ code }) => byName.size === 0 || code !== FailureCode.resourceQuotaExceeded)
      .map((error) => refusalFinding(error, mends[error.code] ?? '')),
  ];
}

export const quotaCheck: Check = {
  name: 'quota',
  limitMs: 30_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const { client, namespace } = scene;
    const dryRun = await scene.dryRun();
    const { items: quotas } = await client.list(resourceQuotas, { namespace, signal });
    const { items: ranges } = await client.list(limitRanges, { namespace, signal });
    const { sandboxes } = roomIn(quotas, needsOf(dryRun.pod ?? dryRun.sent, dryRun.claim));
    const room = sandboxes === Infinity ? 'any number of' : String(sandboxes);
    return outcomeOf(
      quotaFindings({ namespace, quotas, dryRun }),
      `room for ${room} more sandboxes; quotas: ${quotas.length}, limit ranges: ${ranges.length}`,
    );
  },
};
