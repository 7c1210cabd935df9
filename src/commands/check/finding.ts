import { FailureCode } from '../../controllers/sandbox/failure.ts';

/** Codes of findings that docs/reasons.md does not have, because no sandbox shows them. */
const ClusterCode = {
  apiServerUnreachable: 'ApiServerUnreachable',
  apiServerOutdated: 'ApiServerOutdated',
  nameNotResolved: 'NameNotResolved',
  hostUnreachable: 'HostUnreachable',
  proxyRefused: 'ProxyRefused',
  proxyUnreachable: 'ProxyUnreachable',
  certificateUntrusted: 'CertificateUntrusted',
  gitCredentialRefused: 'GitCredentialRefused',
  bucketUnusable: 'BucketUnusable',
  definitionMissing: 'DefinitionMissing',
  definitionOutdated: 'DefinitionOutdated',
  storageClassAmbiguous: 'StorageClassAmbiguous',
  networkPolicyNotEnforced: 'NetworkPolicyNotEnforced',
  podSecurityNotEnforced: 'PodSecurityNotEnforced',
  containersInjected: 'ContainersInjected',
  clockSkewed: 'ClockSkewed',
  architectureUnsupported: 'ArchitectureUnsupported',
} as const;

/** A code of docs/reasons.md where that document has the cause, else one of the cluster. */
export const FindingCode = { ...FailureCode, ...ClusterCode } as const;
export type FindingCode = (typeof FindingCode)[keyof typeof FindingCode];

/** `error`: the product does not work. `warning`: the product works, with a loss that is stated. */
export type Severity = 'error' | 'warning';

export interface Finding {
  readonly code: FindingCode;
  readonly severity: Severity;
  /** Observation, as a sentence. */
  readonly cause: string;
  /** Consequence for the product, as a sentence. */
  readonly breaks: string;
  /** One line for a shell: a command, or a command with a value of the chart. */
  readonly mend: string;
}

/** Result of one check. */
export interface Outcome {
  readonly findings: readonly Finding[];
  /** Reasons why the check, or a part of it, was not tried. */
  readonly notTried: readonly string[];
  /** Summary of what was tried; empty where nothing was. */
  readonly observed: string;
}

export const outcomeOf = (
  findings: readonly Finding[],
  observed: string,
  notTried: readonly string[] = [],
): Outcome => ({ findings, observed, notTried });

/** Ends a check with the reason why it can not be tried. */
export class NotTried extends Error {
  override readonly name = 'NotTried';
}

/** Reason of every check that needs a namespace which does not exist. */
export const noNamespace = (namespace: string): string => `there is no namespace ${namespace}`;

export const errorOf = (
  code: FindingCode,
  texts: Pick<Finding, 'cause' | 'breaks' | 'mend'>,
): Finding => ({ code, severity: 'error', ...texts });
export const warningOf = (
  code: FindingCode,
  texts: Pick<Finding, 'cause' | 'breaks' | 'mend'>,
): Finding => ({ code, severity: 'warning', ...texts });
