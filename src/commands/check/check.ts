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
  /** The pod after admission, as the dry run returns it. Absent: admission refused the pod. */
  readonly pod?: Pick<Pod, 'spec' | 'metadata'>;
  readonly claim?: Pick<PersistentVolumeClaim, 'spec'>;
  readonly errors: readonly CreateError[];
}

export type ServerAnswer =
  | {
      readonly status: number;
      /** Value of the `Date` header; undefined if there is none. */
      readonly date: string | undefined;
      /** Time of this process in ms since 1970: before the request, and after the answer. */
      readonly sentMs: number;
      readonly receivedMs: number;
      /** `gitVersion` of Kubernetes; undefined if the answer has none. */
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
  readonly accounts: Readonly<Record<'operator' | 'gateway', string>> & {
    /** Absent: the gateway serves the relay for models. */
    readonly relay?: string;
  };
  /** Whether settings name the accounts. Otherwise, the chart generates the names in `accounts`. */
  readonly areAccountsNamed: boolean;
}

/** Images that the checks pull. Undefined: no option or setting names the image. */
export interface Images {
  readonly operator: string | undefined;
  /** Whether this process runs in a pod with the operator's image, so that a node has pulled it. */
  readonly runsOperator: boolean;
  readonly agent: string | undefined;
  /** Pull secrets for the operator's image, in the namespace of the sandboxes. */
  readonly pullSecrets: readonly string[];
  readonly architectures: readonly string[];
}

export interface Scene extends Installation {
  /** Whether the gateway asks the API server about the tokens of service accounts. */
  readonly reviewsTokens: boolean;
  /** `pre`: nothing is installed yet, and the checks have the rights of a person. */
  readonly phase: 'pre' | 'installed';
  readonly namespace: string;
  readonly client: KubeClient;
  readonly connection: Connection;
  readonly clock: Clock;
  /** Delay between two reads of an object that a check waits for. */
  readonly pollMs: number;
  readonly images: Images;
  readonly outward: OutwardRequests;
  /** Reason why TRUST_FILE can not be used. Undefined: the file is used, or none is set. */
  readonly trustFileFailure: string | undefined;
  /** The operator's settings by which sandboxes reach hosts outside the cluster. */
  readonly sandboxOutward: SandboxOutward;
  /** Base URLs of git hosts by provider, without user and password. */
  readonly gitHosts: Readonly<Record<string, string>>;
  readonly gitCredentials: () => Promise<readonly GitHostCredential[]>;
  /** Absent: the settings name no bucket. */
  readonly bucket?: { readonly store: ObjectStore; readonly name: string; readonly url: string };
  readonly objects: TemporaryObjects;
  /** IP addresses of a DNS name. Rejects with an error of the operating system. */
  readonly resolve: (name: string) => Promise<readonly string[]>;
  /** The first answer of the API server, which all checks share. */
  readonly apiServer: () => Promise<ServerAnswer>;
  /** The template of the pods that checks create. Throws `NotTried` if no template can be read. */
  readonly template: () => Promise<SandboxTemplate>;
  /** Throws `NotTried`, and every error of the API server that is no refusal of the pod. */
  readonly dryRun: () => Promise<DryRun>;
}

export interface Check {
  readonly name: string;
  /** Maximum duration. A check that takes longer counts as not tried. */
  readonly limitMs: number;
  /** Whether the check can not run without an API server. */
  readonly needsApiServer: boolean;
  readonly run: (scene: Scene, signal: AbortSignal) => Promise<Outcome>;
}

/** The `helm` command that changes one value of the chart. */
export const withValue = (
  { release, releaseNamespace }: Pick<Installation, 'release' | 'releaseNamespace'>,
  setting: string,
): string =>
  `helm upgrade --install ${release} helm/conversation-operator -n ${releaseNamespace} --reset-then-reuse-values ${setting}`;

/** Returns a function that calls `work` once and returns the same promise on every call. */
export function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => (result ??= work());
}

/** Codes that docs/reasons.md does not list, because no sandbox has them. */
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

/** Codes of findings: codes of docs/reasons.md, and codes that only checks have. */
export const FindingCode = { ...FailureCode, ...ClusterCode } as const;
export type FindingCode = (typeof FindingCode)[keyof typeof FindingCode];

/** `error`: the product does not work. `warning`: it works, except for what `breaks` states. */
type Severity = 'error' | 'warning';

/** Result of a check. Functions with names that end in `Findings` are pure. */
export interface Finding {
  readonly code: FindingCode;
  readonly severity: Severity;
  /** Observation of the check, as a sentence. */
  readonly cause: string;
  /** Consequence for the product, as a sentence. */
  readonly breaks: string;
  /** A shell command in one line, for example one that changes a value of the chart. */
  readonly remedy: string;
}

export interface Outcome {
  readonly findings: readonly Finding[];
  /** Reasons why the check, or a part of it, was not tried. */
  readonly notTried: readonly string[];
  /** Summary of the parts that were tried; empty if none was. */
  readonly observed: string;
}

export const outcomeOf = (
  findings: readonly Finding[],
  observed: string,
  notTried: readonly string[] = [],
): Outcome => ({ findings, observed, notTried });

/** Ends a check that can not be tried. The message is the reason. */
export class NotTried extends Error {
  override readonly name = 'NotTried';
}

/** Reason why checks that need this namespace are not tried. */
export const noNamespace = (namespace: string): string => `there is no namespace ${namespace}`;

export const errorOf = (
  code: FindingCode,
  texts: Pick<Finding, 'cause' | 'breaks' | 'remedy'>,
): Finding => ({ code, severity: 'error', ...texts });
export const warningOf = (
  code: FindingCode,
  texts: Pick<Finding, 'cause' | 'breaks' | 'remedy'>,
): Finding => ({ code, severity: 'warning', ...texts });
