import { FailureCode } from '../../controllers/sandbox/failure.ts';
import type { CreateError } from '../../controllers/sandbox/create-error.ts';
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
import { refusalFinding } from './dry-run.ts';
import { quotaCodes } from './quota.ts';
import { namespaces } from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';

const podSecurityCodes: ReadonlySet<string> = new Set([FailureCode.podSecurityViolated]);

const enforceLabel = 'pod-security.kubernetes.io/enforce';

interface PodSecurityFacts {
  readonly namespace: string;
  /** Value of the label of the namespace; undefined: there is no label. */
  readonly level: string | undefined;
  readonly errors: readonly CreateError[];
}

/** The standard that the message of the API server asks for. */
const neededLevel = (serverMessage: string, level: string | undefined): string =>
  level === 'restricted' &&
  !/privileged|host(?:Path|Network|PID|IPC|Port)|capabilities .*add/i.test(serverMessage)
    ? 'baseline'
    : 'privileged';

/** Pure. */
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
      mend: label('restricted'),
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

/** Names of all containers of a pod. */
const containersOf = ({ spec }: DryRun['sent']): readonly string[] =>
  [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(({ name }) => name);

const webhooks =
  'kubectl get mutatingwebhookconfigurations -o custom-columns=NAME:.metadata.name,NAMESPACES:.webhooks[*].namespaceSelector';

/** Values of the chart by which known meshes leave a pod alone. */
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

function mendOf({ code }: CreateError, facts: AdmissionFacts): string {
  switch (code) {
    case FailureCode.referenceNotFound:
      return withValue(facts, '--set defaultTemplate.priorityClassName=');
    case FailureCode.admissionDenied:
    case FailureCode.admissionUnavailable:
      return 'kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies # exempt the namespace, or mend the webhook';
    case FailureCode.namespaceTerminating:
      return `kubectl get namespace ${facts.namespace} -o yaml # wait for its end, then create it`;
    default:
      return `kubectl -n ${facts.namespace} get sandboxtemplates -o yaml # change the template as the message says`;
  }
}

/** Pure. Findings of other checks on the same dry run are left to them. */
export function admissionFindings(facts: AdmissionFacts): readonly Finding[] {
  const { dryRun, namespace } = facts;
  const refused = dryRun.errors
    .filter(({ code }) => !podSecurityCodes.has(code) && !quotaCodes.has(code))
    .map((error) => refusalFinding(error, mendOf(error, facts)));
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
            mend: `${webhooks} # exempt the namespace ${namespace}, or give the gate's controller room`,
          }),
        ]),
    ...(injected.length === 0
      ? []
      : [
          warningOf(FindingCode.containersInjected, {
            cause: `A webhook of the cluster adds containers to the pods of sandboxes: ${injected.join(', ')}.`,
            breaks:
              'A mesh may refuse connections of the operator and the gateway to agents, and each start waits for these containers.',
            mend:
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
