import { FailureCode } from '../../controllers/sandbox/failure.ts';
import { type CreateError, quantityOf } from '../../controllers/sandbox/create-error.ts';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  warningOf,
  type Finding,
  noNamespace,
  withValue,
  type Check,
  type DryRun,
  type Installation,
  type Scene,
} from './check.ts';
import { refusalFinding, breaksOf } from './dry-run.ts';
import { namespaces, type PersistentVolumeClaim, type Pod } from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';
import { group } from '../../resources/group.ts';
import { limitRanges, resourceQuotas, type ResourceQuota } from './resources.ts';

const quotaCodes: ReadonlySet<string> = new Set([
  FailureCode.resourceQuotaExceeded,
  FailureCode.resourceQuotaTooSmall,
  FailureCode.resourcesNotSpecified,
  FailureCode.limitRangeViolated,
]);

type Needs = ReadonlyMap<string, number>;

/** Resources that one conversation and its sandbox use, by their names in a ResourceQuota. */
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

interface Full {
  readonly quota: string;
  readonly resource: string;
  readonly hard: string;
  readonly used: string;
  /** Whether one sandbox needs more than `hard`, so that no wait can help. */
  readonly isTooSmall: boolean;
}

/** Quotas with scopes count only some pods. The dry run shows whether they refuse this pod. */
const countsAll = ({ spec }: ResourceQuota): boolean =>
  (spec?.scopes ?? []).length === 0 && spec?.scopeSelector === undefined;

/** Number of sandboxes for which the quotas have room, and the resources that have no room. */
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

interface QuotaFacts {
  readonly namespace: string;
  readonly quotas: readonly ResourceQuota[];
  readonly dryRun: Pick<DryRun, 'sent' | 'pod' | 'claim'> & {
    readonly errors: readonly CreateError[];
  };
}

/** Reads quotas too: they may count Conversations, and the dry run creates none. Pure function. */
export function quotaFindings(facts: QuotaFacts): readonly Finding[] {
  const { namespace, quotas, dryRun } = facts;
  const { full } = roomIn(quotas, needsOf(dryRun.pod ?? dryRun.sent, dryRun.claim));
  const refused = dryRun.errors.filter(({ code }) => quotaCodes.has(code));
  const remedies: Readonly<Record<string, string>> = {
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
        remedy: `kubectl -n ${namespace} patch resourcequota ${quota} --type=merge -p '${JSON.stringify({ spec: { hard } })}'`,
      });
    }),
    ...refused
      .filter(({ code }) => !found.has(code))
      .filter(({ code }) => byName.size === 0 || code !== FailureCode.resourceQuotaExceeded)
      .map((error) => refusalFinding(error, remedies[error.code] ?? '')),
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

const podSecurityCodes: ReadonlySet<string> = new Set([FailureCode.podSecurityViolated]);

const enforceLabel = 'pod-security.kubernetes.io/enforce';

interface PodSecurityFacts {
  readonly namespace: string;
  /** Value of the namespace's label `enforce`; undefined without the label. */
  readonly level: string | undefined;
  readonly errors: readonly CreateError[];
}

/** The strictest Pod Security Standard that admits the pod, according to `serverMessage`. */
const neededLevel = (serverMessage: string, level: string | undefined): string =>
  level === 'restricted' &&
  !/privileged|host(?:Path|Network|PID|IPC|Port)|capabilities .*add/i.test(serverMessage)
    ? 'baseline'
    : 'privileged';

export function podSecurityFindings(facts: PodSecurityFacts): readonly Finding[] {
  const { namespace, level, errors } = facts;
  const refused = errors.filter(({ code }) => podSecurityCodes.has(code));
  const label = (value: string) =>
    `kubectl label namespace ${namespace} ${enforceLabel}=${value} --overwrite`;
  if (refused.length > 0)
    return refused.map((error) =>
      refusalFinding(
        error,
        /security context constraint/.test(error.serverMessage)
          ? `oc adm policy add-scc-to-group nonroot-v2 system:serviceaccounts:${namespace}`
          : `${label(neededLevel(error.serverMessage, level))} # or change the securityContext of the template`,
      ),
    );
  if (level !== undefined && level !== 'privileged') return [];
  return [
    warningOf(FindingCode.podSecurityNotEnforced, {
      cause: `The namespace ${namespace} enforces ${level === undefined ? 'no Pod Security Standard' : 'the standard privileged'}.`,
      breaks: 'A template may make sandboxes that are root on their node.',
      remedy: label('restricted'),
    }),
  ];
}

async function levelOf({ client, namespace }: Scene, signal: AbortSignal) {
  const object = await found(client.get(namespaces, '', namespace, { signal }));
  if (object === undefined) throw new NotTried(noNamespace(namespace));
  return object.metadata.labels?.[enforceLabel];
}

export const podSecurityCheck: Check = {
  name: 'pod-security',
  limitMs: 30_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const level = await levelOf(scene, signal);
    const { errors } = await scene.dryRun();
    const { namespace } = scene;
    return outcomeOf(
      podSecurityFindings({ namespace, level, errors }),
      `${namespace} enforces ${level ?? 'none'}, which the pods of sandboxes pass`,
    );
  },
};

const containersOf = ({ spec }: DryRun['sent']): readonly string[] =>
  [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(({ name }) => name);

const webhooks =
  'kubectl get mutatingwebhookconfigurations -o custom-columns=NAME:.metadata.name,NAMESPACES:.webhooks[*].namespaceSelector';

/** Chart values that keep a service mesh from the pods, by the names of the mesh's containers. */
const meshValues: readonly (readonly [RegExp, string])[] = [
  [/^istio-/, "--set-string 'defaultTemplate.podLabels.sidecar\\.istio\\.io/inject=false'"],
  [/^linkerd-/, "--set-string 'defaultTemplate.podAnnotations.linkerd\\.io/inject=disabled'"],
  [
    /^consul-/,
    "--set-string 'defaultTemplate.podAnnotations.consul\\.hashicorp\\.com/connect-inject=false'",
  ],
];

export interface AdmissionFacts extends Installation {
  readonly namespace: string;
  readonly dryRun: Pick<DryRun, 'sent' | 'pod'> & { readonly errors: readonly CreateError[] };
}

function remedyOf({ code }: CreateError, facts: AdmissionFacts): string {
  switch (code) {
    case FailureCode.referenceNotFound:
      return withValue(facts, '--set defaultTemplate.priorityClassName=');
    case FailureCode.admissionDenied:
    case FailureCode.admissionUnavailable:
      return 'kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies # exempt the namespace, or fix the webhook';
    case FailureCode.namespaceTerminating:
      return `kubectl get namespace ${facts.namespace} -o yaml # wait for its end, then create it`;
    default:
      return `kubectl -n ${facts.namespace} get sandboxtemplates -o yaml # change the template as the message says`;
  }
}

/** Findings of the dry run, except those that other checks report. Pure function. */
export function admissionFindings(facts: AdmissionFacts): readonly Finding[] {
  const { dryRun, namespace } = facts;
  const refused = dryRun.errors
    .filter(({ code }) => !podSecurityCodes.has(code) && !quotaCodes.has(code))
    .map((error) => refusalFinding(error, remedyOf(error, facts)));
  const { pod } = dryRun;
  if (pod === undefined) return refused;
  const gates = (pod.spec?.schedulingGates ?? []).map(({ name }) => name);
  const wanted = new Set((dryRun.sent.spec?.schedulingGates ?? []).map(({ name }) => name));
  const added = gates.filter((name) => !wanted.has(name));
  const own = new Set(containersOf(dryRun.sent));
  const injected = containersOf(pod).filter((name) => !own.has(name));
  const [, meshValue] = meshValues.find(([name]) => injected.some((each) => name.test(each))) ?? [];
  return [
    ...refused,
    ...(added.length === 0
      ? []
      : [
          errorOf(FindingCode.schedulingGated, {
            cause: `A webhook of the cluster holds the pods of sandboxes back by a scheduling gate: ${added.join(', ')}.`,
            breaks: `Starts wait, with the reason ${FindingCode.schedulingGated}, until something removes the gate.`,
            remedy: `${webhooks} # exempt the namespace ${namespace}, or give the gate's controller room`,
          }),
        ]),
    ...(injected.length === 0
      ? []
      : [
          warningOf(FindingCode.containersInjected, {
            cause: `A webhook of the cluster adds containers to the pods of sandboxes: ${injected.join(', ')}.`,
            breaks:
              'A mesh may refuse connections of the operator and the gateway to agents, and each start waits for these containers.',
            remedy:
              meshValue === undefined
                ? `${webhooks} # exempt the namespace ${namespace}`
                : withValue(facts, meshValue),
          }),
        ]),
  ];
}

export const admissionCheck: Check = {
  name: 'admission',
  limitMs: 30_000,
  needsApiServer: true,
  run: async (scene) => {
    const dryRun = await scene.dryRun();
    const findings = admissionFindings({ ...scene, dryRun });
    const [refusal] = dryRun.errors;
    if (findings.length === 0 && refusal !== undefined)
      throw new NotTried(`the dry run of a sandbox's pod ended before: ${refusal.code}`);
    return outcomeOf(findings, "the API server accepts a sandbox's pod and volume claim unchanged");
  },
};
