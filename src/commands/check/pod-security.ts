import { namespaces } from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';
import { FailureCode } from '../../controllers/sandbox/failure.ts';
import type { CreateError } from '../../controllers/sandbox/create-error.ts';
import {
  FindingCode,
  noNamespace,
  NotTried,
  outcomeOf,
  warningOf,
  type Finding,
} from './finding.ts';
import { refusalFinding } from './dry-run.ts';
import type { Check, Scene } from './scene.ts';

export const podSecurityCodes: ReadonlySet<string> = new Set([FailureCode.podSecurityViolated]);

const enforceLabel = 'pod-security.kubernetes.io/enforce';

export interface PodSecurityFacts {
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
