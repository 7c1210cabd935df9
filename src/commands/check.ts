import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { namespaces } from '@conversation-operator/kube/core';
import { found, isNotFound } from '@conversation-operator/kube/errors';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { archiveConfigOf } from '../config/archive.ts';
import { proxiesOf } from '../config/outward.ts';
import { sandboxOutwardOf } from '../config/cluster.ts';
import { accountName, readCheckConfig, type CheckConfig } from '../config/check.ts';
import { apiUrlOf } from '../gateway/git/host-api/host-apis.ts';
import { apiAuthorization } from '../resources/git-providers.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { agentContainerOf, sandboxTemplates } from '../resources/sandbox-template.ts';
import { openStore } from './archive.ts';
import { askApiServer, apiServerCheck, clockCheck } from './check/api-server.ts';
import { dryRunOf, plannedTemplate } from './check/dry-run.ts';
import {
  noNamespace,
  NotTried,
  once,
  type GitHostCredential,
  type Scene,
  type Check,
} from './check/check.ts';
import { createOutwardRequests } from './check/outward-requests.ts';
import { jsonReport, textReport, exitCodeOf, runChecks } from './check/run-checks.ts';
import { TemporaryObjects } from './check/temporary-objects.ts';
import { type ClusterOptions, connect, createRuntime, interrupted } from './process.ts';
import { CommandError } from './terminal.ts';
import { everybodysGitCredentials } from './git-directory.ts';
import { withOutward, type OutwardRuntime } from './outward.ts';
import { admissionCheck, podSecurityCheck, quotaCheck } from './check/admission.ts';
import { bucketCheck } from './check/bucket.ts';
import { definitionsCheck } from './check/definitions.ts';
import { dnsCheck } from './check/dns.ts';
import { gitHostsCheck } from './check/git-hosts.ts';
import { imagesCheck } from './check/images.ts';
import { networkPolicyCheck } from './check/network-policy.ts';
import { architectureCheck, runtimeClassCheck } from './check/nodes.ts';
import { outwardCheck } from './check/outward.ts';
import { rightsCheck } from './check/rights.ts';
import { storageClassCheck, volumeCheck } from './check/volume.ts';
import { trustCheck } from './check/trust.ts';

/** All checks, in the order of the report. */
export const allChecks: readonly Check[] = [
  apiServerCheck,
  dnsCheck,
  clockCheck,
  rightsCheck,
  definitionsCheck,
  podSecurityCheck,
  admissionCheck,
  quotaCheck,
  runtimeClassCheck,
  architectureCheck,
  storageClassCheck,
  volumeCheck,
  imagesCheck,
  trustCheck,
  networkPolicyCheck,
  outwardCheck,
  gitHostsCheck,
  bucketCheck,
];

export interface CheckOptions extends ClusterOptions {
  /** Checks a cluster before the installation, with the rights of the person. */
  readonly pre?: boolean;
  readonly output?: 'json';
  readonly image?: string;
  readonly agentImage?: string;
  readonly storageClass?: string;
  readonly runtimeClass?: string;
  /** Name of the SandboxTemplate from which the checks create pods. */
  readonly template: string;
  readonly release?: string;
  readonly releaseNamespace?: string;
  readonly operatorAccount?: string;
  readonly gatewayAccount?: string;
  readonly relayAccount?: string;
  /** Architectures of the images, separated by commas. */
  readonly architectures: string;
  /** Names of checks to leave out, separated by commas. */
  readonly skip?: string;
  /** Delay between two reads of a pod. Only tests set this option. */
  readonly pollMs?: number;
}

const listed = (text: string): readonly string[] =>
  text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

/** All checks except those of `--skip`. Throws `CommandError` for an unknown name. */
export function chosenChecks(skip = '') {
  const names = new Set(allChecks.map(({ name }) => name));
  const skipped = listed(skip);
  const unknown = skipped.filter((name) => !names.has(name));
  if (unknown.length > 0)
    throw new CommandError(
      `--skip: ${unknown.join(', ')} is no check; there are ${[...names].join(', ')}`,
    );
  return allChecks.filter(({ name }) => !skipped.includes(name));
}

function accountOf(option: string, text: string): string {
  const account = accountName.safeParse(text);
  if (!account.success) throw new CommandError(`${option}: ${text} must be namespace/name`);
  return account.data;
}

/** Names in an installation. The chart puts sandboxes into `<release namespace>-sandboxes`. */
export function installationOf(options: CheckOptions, config: CheckConfig, namespace: string) {
  const release = options.release ?? config.RELEASE;
  const releaseNamespace =
    options.releaseNamespace ??
    config.RELEASE_NAMESPACE ??
    (namespace.replace(/-sandboxes$/, '') || namespace);
  const fullName = release.includes('conversation-operator')
    ? release
    : `${release}-conversation-operator`;
  const relay = options.relayAccount ?? config.RELAY_ACCOUNT;
  const prefix = `${releaseNamespace}/${fullName.slice(0, 40).replace(/-$/, '')}`;
  return {
    release,
    releaseNamespace,
    areAccountsNamed: [
      options.operatorAccount ?? config.OPERATOR_ACCOUNT,
      options.gatewayAccount ?? config.GATEWAY_ACCOUNT,
    ].every((name) => name !== undefined),
    accounts: {
      operator: accountOf(
        '--operator-account',
        options.operatorAccount ?? config.OPERATOR_ACCOUNT ?? `${prefix}-operator`,
      ),
      gateway: accountOf(
        '--gateway-account',
        options.gatewayAccount ?? config.GATEWAY_ACCOUNT ?? `${prefix}-gateway`,
      ),
      ...(relay === undefined ? {} : { relay: accountOf('--relay-account', relay) }),
    },
  };
}

/** Base URLs without user and password, for messages. */
const plainUrls = (hosts: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(hosts).map(([provider, text]) => {
      const url = new URL(text);
      url.username = '';
      url.password = '';
      return [provider, url.href];
    }),
  );

async function credentialsOf(config: CheckConfig): Promise<readonly GitHostCredential[]> {
  const { GIT_HOSTS: hosts, GIT_API_URLS: apiUrls, GIT_CREDENTIALS_DIR: folder } = config;
  const credentials = await everybodysGitCredentials({ hosts, folder, logger: silentLogger });
  return credentials.map(({ provider, token }) => {
    const api = apiUrlOf(provider, { hosts, apiUrls });
    return {
      provider,
      userUrl: api === undefined ? undefined : new URL(`${api.href.replace(/\/+$/, '')}/user`),
      headers: { accept: 'application/json', authorization: apiAuthorization(provider, token) },
    };
  });
}

/** Ignores a TRUST_FILE that can not be used. A check reports its error as a finding. */
function outwardOf(
  config: CheckConfig,
  runtime: MeasuredRuntime,
): { readonly outwardRuntime: OutwardRuntime; readonly trustFileFailure: string | undefined } {
  try {
    return { outwardRuntime: withOutward(config, runtime), trustFileFailure: undefined };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const outwardRuntime = withOutward({ ...config, TRUST_FILE: undefined }, runtime);
    return { outwardRuntime, trustFileFailure: error.message };
  }
}

/** Whether the API server answers that the namespace does not exist. */
const isMissing = (client: KubeClient, name: string, signal: AbortSignal): Promise<boolean> =>
  client.get(namespaces, '', name, { signal }).then(() => false, isNotFound);

/** Runs all checks and prints the report. Throws `CommandError` and `ConfigError`. */
export async function check(options: CheckOptions): Promise<void> {
  const config = readCheckConfig(process.env);
  const checks = chosenChecks(options.skip);
  const interruption = new AbortController();
  void interrupted().then((signal) => interruption.abort(new NotTried(`interrupted by ${signal}`)));
  await using stack = new AsyncDisposableStack();
  const scene = await createScene(options, config, interruption.signal, stack);
  const leftovers = await scene.objects
    .deleteLeftovers(AbortSignal.any([interruption.signal, AbortSignal.timeout(20_000)]))
    // Without an API server nothing can be deleted. The first check reports this error.
    .catch(() => 0);
  if (leftovers > 0)
    process.stderr.write(`Deleted ${leftovers} objects that an earlier check had left.\n`);
  const results = await runChecks({ checks, scene, interrupted: interruption.signal });
  process.stdout.write(options.output === 'json' ? jsonReport(results) : textReport(results));
  process.exitCode = exitCodeOf(results);
}

async function createScene(
  options: CheckOptions,
  config: CheckConfig,
  signal: AbortSignal,
  stack: AsyncDisposableStack,
): Promise<Scene> {
  const runtime = createRuntime(silentLogger);
  const loaded = await loadConnection(
    options.kubeconfig === undefined ? {} : { kubeconfig: options.kubeconfig },
  );
  const { connection } = loaded;
  const { client, transport } = connect(connection, runtime);
  stack.defer(() => transport.close());
  const namespace = options.namespace ?? config.NAMESPACE ?? loaded.namespace;
  const { outwardRuntime, trustFileFailure } = outwardOf(config, runtime);
  const sandboxOutward = sandboxOutwardOf(config);
  const outward = createOutwardRequests({
    outward: outwardRuntime.outward,
    proxies: proxiesOf(config),
  });
  stack.defer(() => outward.close());
  const archive = archiveConfigOf(config);
  const bucket =
    archive?.kind === 's3'
      ? {
          store: openStore(archive, outwardRuntime, stack),
          name: archive.bucket,
          url: archive.endpoint ?? `https://s3.${archive.region}.amazonaws.com`,
        }
      : undefined;
  const within = (ms: number) => AbortSignal.any([signal, AbortSignal.timeout(ms)]);
  const phase = options.pre === true ? 'pre' : 'installed';
  const template = once(async () => {
    if (phase === 'pre')
      return plannedTemplate({
        namespace,
        image: options.agentImage ?? 'conversation-operator-agent',
        storageClass: options.storageClass,
        runtimeClass: options.runtimeClass,
      });
    const stored = await found(
      client.get(sandboxTemplates, namespace, options.template, { signal: within(15_000) }),
    );
    if (stored === undefined)
      throw new NotTried(
        (await isMissing(client, namespace, within(15_000)))
          ? noNamespace(namespace)
          : `there is no SandboxTemplate ${options.template} in the namespace ${namespace}: name one by --template, or say --pre before an installation`,
      );
    return stored;
  });
  // The checks of the images report why the template can not be read.
  const stored = phase === 'pre' ? undefined : await template().catch(() => undefined);
  return {
    ...installationOf(options, config, namespace),
    reviewsTokens: config.TOKEN_REVIEW,
    phase,
    namespace,
    client,
    connection,
    outward,
    template,
    trustFileFailure,
    sandboxOutward,
    clock: systemClock,
    pollMs: options.pollMs ?? 1_000,
    images: {
      operator: options.image ?? config.IMAGE,
      runsOperator:
        options.image === undefined && process.env['KUBERNETES_SERVICE_HOST'] !== undefined,
      agent: options.agentImage ?? (stored && agentContainerOf(stored)?.image),
      pullSecrets: listed(config.IMAGE_PULL_SECRETS),
      architectures: listed(options.architectures),
    },
    gitHosts: plainUrls(config.GIT_HOSTS),
    gitCredentials: () => credentialsOf(config),
    ...(bucket === undefined ? {} : { bucket }),
    objects: new TemporaryObjects({
      client,
      clock: systemClock,
      namespace,
      run: randomBytes(6).toString('hex'),
    }),
    resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
    apiServer: once(() => askApiServer(connection, () => Date.now(), within(9_000))),
    dryRun: once(async () =>
      dryRunOf(client, { template: await template(), outward: sandboxOutward }, within(25_000)),
    ),
  };
}
