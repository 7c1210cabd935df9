import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Pod, PersistentVolumeClaim } from '@conversation-operator/kube/core';
import type { Connection } from '@conversation-operator/kube/transport';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { CreateError } from '../../controllers/sandbox/create-error.ts';
import type { SandboxOutward } from '../../controllers/sandbox/pod.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { ConnectFailure, OutwardRequests } from './outward-requests.ts';
import type { TemporaryObjects } from './temporary-objects.ts';
import { FailureCode } from '../../controllers/sandbox/failure.ts';

export interface DryRun {
  readonly sent: Pick<Pod, 'spec'>;
  /** The pod as the API server would store it; absent where the server refuses it. */
  readonly pod?: Pick<Pod, 'spec' | 'metadata'>;
  readonly claim?: Pick<PersistentVolumeClaim, 'spec'>;
  readonly errors: readonly CreateError[];
}

export type ServerAnswer =
  | {
      readonly status: number;
      /** Value of the Date header; undefined: there is none. */
      readonly date: string | undefined;
      /** Own clock, in milliseconds since 1970, before the request and after the answer. */
      readonly sentMs: number;
      readonly receivedMs: number;
      /** `gitVersion` of Kubernetes; undefined where the answer has none. */
      readonly version: string | undefined;
    }
  | { readonly failure: ConnectFailure };

export interface GitHostCredential {
  readonly provider: string;
  /** Undefined: the gateway knows no API of this host. */
  readonly userUrl: URL | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Installation {
  readonly release: string;
  readonly releaseNamespace: string;
  /** `namespace/name` of the service accounts. */
  readonly accounts: Readonly<Record<'operator' | 'gateway', string>>;
  /** Whether settings name the accounts; else their names are those that the chart gives them. */
  readonly areAccountsNamed: boolean;
}

/** Images that pods pull; undefined: none was named. */
export interface Images {
  readonly operator: string | undefined;
  /** Whether this process runs from the image of the operator, so that a node has pulled it. */
  readonly runsOperator: boolean;
  readonly agent: string | undefined;
  /** Names of Secrets for the registry of the operator's image, in the sandboxes' namespace. */
  readonly pullSecrets: readonly string[];
  readonly architectures: readonly string[];
}

export interface Scene extends Installation {
  /** `pre`: nothing is installed yet, and the rights are those of a person. */
  readonly phase: 'pre' | 'installed';
  readonly namespace: string;
  readonly client: KubeClient;
  readonly connection: Connection;
  readonly clock: Clock;
  /** Delay between two readings of an object that a check waits for. */
  readonly pollMs: number;
  readonly images: Images;
  readonly outward: OutwardRequests;
  /** Reason why TRUST_FILE can't be used; undefined: the file is used, or none is named. */
  readonly trustFileFailure: string | undefined;
  /** Access of sandboxes to hosts outside the cluster, as in the pods of the operator. */
  readonly sandboxOutward: SandboxOutward;
  /** Base URLs of git hosts by provider, without users. */
  readonly gitHosts: Readonly<Record<string, string>>;
  readonly gitCredentials: () => Promise<readonly GitHostCredential[]>;
  /** Absent: the settings name no bucket. */
  readonly bucket?: { readonly store: ObjectStore; readonly name: string; readonly url: string };
  readonly objects: TemporaryObjects;
  /** Addresses of a name. Rejects with an error of the system. */
  readonly resolve: (name: string) => Promise<readonly string[]>;
  /** The first answer of the API server, which all checks share. */
  readonly apiServer: () => Promise<ServerAnswer>;
  /** The template whose sandboxes are tried. Throws `NotTried`. */
  readonly template: () => Promise<SandboxTemplate>;
  /** Throws `NotTried`, and errors of the API server that say nothing about the pod. */
  readonly dryRun: () => Promise<DryRun>;
}

export interface Check {
  readonly name: string;
  /** Maximum duration; a check that takes longer counts as not tried. */
  readonly limitMs: number;
  /** Whether the check has no subject without an API server. */
  readonly needsApiServer: boolean;
  readonly run: (scene: Scene, signal: AbortSignal) => Promise<Outcome>;
}

/** Command that changes one value of the chart. */
export const withValue = (
  { release, releaseNamespace }: Pick<Installation, 'release' | 'releaseNamespace'>,
  setting: string,
): string =>
  `helm upgrade --install ${release} helm/conversation-operator -n ${releaseNamespace} --reset-then-reuse-values ${setting}`;

/** Calls `work` once; later calls get the same result. */
export function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => (result ??= work());
}

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
type Severity = 'error' | 'warning';

export interface Finding {
  readonly code: FindingCode;
  readonly severity: Severity;
  /** Observation, as a sentence. */
  readonly cause: string;
  /** Consequence for the product, as a sentence. */
  readonly breaks: string;
  /** One line for a shell: a command, or a command with a value of the chart. */
  readonly remedy: string;
}

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
  texts: Pick<Finding, 'cause' | 'breaks' | 'remedy'>,
): Finding => ({ code, severity: 'error', ...texts });
export const warningOf = (
  code: FindingCode,
  texts: Pick<Finding, 'cause' | 'breaks' | 'remedy'>,
): Finding => ({ code, severity: 'warning', ...texts });
