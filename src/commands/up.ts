import { join } from 'node:path';
import type { AgentNotification } from '../agent/notifications.ts';
import { createAgentClient } from '../agent/kinds.ts';
import { preparationLimits } from '../config/environment.ts';
import { AgentEvents } from '../agent/events.ts';
import { shellQuote } from '../agent/shell-quote.ts';
import { WorkspaceFiles } from '../agent/workspace-files.ts';
import { noProxyListOf } from '../config/outward.ts';
import { readUpConfig, upArchiveOf, type UpConfig } from '../config/up.ts';
import { createCaches, reflectorsOf } from '../controllers/caches.ts';
import { Operator } from '../controllers/operator.ts';
import { issueKey, type IssuedKey } from '../gateway/auth/key.ts';
import { createGateway, type GatewayOptions } from '../gateway/gateway.ts';
import { gatewayIndexers } from '../gateway/lookup/cache.ts';
import { createLoginLink } from '../gateway/sign-in/sessions.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { Reflector } from '@conversation-operator/kube/reflector';
import { apiKeys, type ApiKey } from '../resources/api-key.ts';
import { ownerSettings, type OwnerSettings } from '../resources/owner-settings.ts';
import { conversationQuotas } from '../resources/conversation-quota.ts';
import { createLocalArchive, openArchive } from './archive.ts';
import {
  serveAgentSide,
  auditOf,
  gatewaySettings,
  webDirectories,
  pullRequestService,
  signInOf,
} from './gateway-wiring.ts';
import { mountedAgentCredentials, localMasterKey } from './credential-files.ts';
import { CommandError, portInUse } from './terminal.ts';
import {
  DataFolder,
  lastPort,
  announceService,
  localNamespace,
  storedFirstKey,
} from './data-folder.ts';
import { defaultQuota, ensure, keepWarm } from './initial-objects.ts';
import { startEmbeddedCluster } from './embedded-cluster.ts';
import { gitCredentials, gitDirectory } from './git-directory.ts';
import {
  interrupted,
  loggerOf,
  serveTelemetry,
  startReflectors,
  createRuntime,
} from './process.ts';
import { outwardEnvironment, withEnvironment, withOutward } from './outward.ts';
import { localAgents, localAgentCredentials } from './local-agents.ts';

const namespace = localNamespace;
const loopback = '127.0.0.1';
/** Returns the API key of the first start. If there is none, or it is revoked, creates a key. */
async function ensureFirstKey(
  client: KubeClient,
  folder: DataFolder,
  owner: string,
): Promise<IssuedKey> {
  const known = await storedFirstKey(client, folder);
  if (known !== undefined) return known;
  const issued = await issueKey({
    client,
    namespace,
    owner,
    role: 'admin',
    description: 'First key',
  });
  folder.write('api-key', issued.key);
  return issued;
}

/** Origins of sandboxes: SANDBOX_URL_TEMPLATE, or loopback addresses if PUBLIC_URL is absent. */
function sandboxOrigins(
  { SANDBOX_URL_TEMPLATE, PUBLIC_URL }: UpConfig,
  folder: DataFolder,
): Partial<GatewayOptions> {
  if (SANDBOX_URL_TEMPLATE !== undefined) return { sandboxUrlTemplate: SANDBOX_URL_TEMPLATE };
  if (PUBLIC_URL !== undefined) return {};
  const file = 'sandbox-addresses';
  return {
    loopbackOrigins: { read: () => folder.read(file), write: (text) => folder.write(file, text) },
  };
}

interface Facts {
  readonly link: string;
  /** Shell command that prints a new link, from any folder and with any Node on the PATH. */
  readonly linkCommand: string;
  readonly url: string;
  readonly key: string;
  readonly kubeconfig: string;
  readonly metricsUrl: string;
  readonly dataDir: string;
  readonly notes: readonly string[];
  readonly example: string;
}

function banner({ url, key, kubeconfig, ...facts }: Facts): string {
  const message = JSON.stringify({
    initial_message: { content: [{ type: 'text', text: facts.example }] },
  });
  return [
    '',
    `  REST service   ${url}`,
    `  API key        ${key}`,
    `  kubeconfig     ${kubeconfig}`,
    `  metrics        ${facts.metricsUrl}`,
    `  data           ${facts.dataDir}`,
    ...facts.notes.map((note) => `  ${note}`),
    '',
    '  Agents run here as local processes of this user, WITHOUT isolation. Give them only work that you would run yourself.',
    '',
    '  Open this link in a browser. It signs you in once, within 10 minutes:',
    '',
    facts.link,
    '',
    '  The next link:',
    '',
    facts.linkCommand,
    '',
    '  Or start a conversation over REST:',
    '',
    `curl -s ${url}/api/v1/app-conversations -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '${message}'`,
    '',
    '  See it:',
    '',
    `kubectl --kubeconfig '${kubeconfig}' get conversations`,
    '',
    'ready',
    '',
  ].join('\n');
}

export interface UpOptions {
  readonly version: string;
  /** Folder of the program file and of the reference agent. */
  readonly programFolder: string;
}

/** Runs control plane, node, operator and gateway in this process until an interruption. */
export async function up({ version, programFolder }: UpOptions): Promise<void> {
  const config = readUpConfig(process.env);
  const stopped = interrupted();
  const logger = loggerOf(config);
  const runtime = withOutward(config, createRuntime(logger));
  const { metrics } = runtime;
  const folder = new DataFolder(config.DATA_DIR);
  const keys = localMasterKey(folder);
  // Before agents resume, which a wrong file would only interrupt.
  const signIn = signInOf(config, runtime);
  const agentCredentials = localAgentCredentials(
    config,
    mountedAgentCredentials(config.AGENT_CREDENTIALS_DIR, logger),
  );
  await using stack = new AsyncDisposableStack();

  const ended = new AbortController();
  const stopping = stopped.then(() => ended.abort());
  const agents = await localAgents({
    config,
    folder,
    programFolder,
    environment: process.env,
    signal: ended.signal,
  }).catch(async (error: unknown) => {
    if (!ended.signal.aborted) throw error;
    await stopping;
    throw new CommandError('stopped before the agent was installed; the next start does it', {
      cause: error,
    });
  });

  const { client, kubeconfig } = await startEmbeddedCluster(
    {
      ...runtime,
      folder,
      port: config.API_PORT,
      images: withEnvironment(agents.images, outwardEnvironment(config, folder)),
    },
    stack,
  );
  await agents.ensureTemplates(client, namespace);
  await ensure(client, conversationQuotas, defaultQuota(namespace));
  await keepWarm(client, namespace, agents.templateName, config.WARM);
  const first = await ensureFirstKey(client, folder, config.OWNER);

  const caches = createCaches({ client, namespace, ...runtime, indexers: gatewayIndexers });
  const keyCache = new Reflector<ApiKey>({
    client,
    namespace,
    resource: apiKeys,
    indexers: gatewayIndexers.apiKeys,
    ...runtime,
  });
  const settingsCache = new Reflector<OwnerSettings>({
    client,
    namespace,
    resource: ownerSettings,
    ...runtime,
  });
  const reflectors = [...reflectorsOf(caches), keyCache, settingsCache];
  startReflectors(reflectors, stack);
  await Promise.all(reflectors.map((reflector) => reflector.synced()));

  const credentials = gitCredentials(config, runtime, stack);
  const audit = auditOf(config, runtime);
  const forPullRequests = { client, credentials, caches, audit };
  const pullRequests = pullRequestService(config, forPullRequests, runtime, stack);
  // Gateway and operator share this process. Notifications before the operator starts are lost.
  let notify: (notification: AgentNotification) => void = () => undefined;
  const portFile = 'agent-side-port';
  const agentSidePort = await serveAgentSide(
    config,
    {
      client,
      credentials,
      modelCredentials: agentCredentials,
      keys,
      namespace,
      host: loopback,
      // Agents store URLs of tools and secrets with this port, so each start prefers the last port.
      port: await lastPort(folder, portFile),
      pullRequests,
      audit,
      version,
      caches: { ...caches, ownerSettings: settingsCache },
      notify: (notification) => notify(notification),
    },
    runtime,
    stack,
  );
  folder.write(portFile, String(agentSidePort));

  createLocalArchive(upArchiveOf(config));
  const archive = openArchive(upArchiveOf(config), keys, runtime, stack);
  const events = new AgentEvents();
  stack.defer(() => events.close());
  const files = new WorkspaceFiles();
  stack.defer(() => files.close());
  const agent = createAgentClient();
  stack.defer(() => agent.close());
  const operator = new Operator({
    ...runtime,
    client,
    caches,
    agent,
    keys,
    gitHosts: config.GIT_HOSTS,
    agentCredentials,
    audit,
    namespace,
    pauseBoundMs: config.PAUSE_TIMEOUT_SECONDS * 1000,
    agentSide: { url: `http://${loopback}:${agentSidePort}`, namespace },
    preparation: preparationLimits(config),
    // Agents inherit the proxies of this process. The operator completes the list `noProxy`.
    outward: { proxy: { noProxy: noProxyListOf(config) } },
    ...(archive === undefined ? {} : { archive: { ...archive, events, files } }),
  });
  stack.defer(() => operator.stop());
  await operator.start();
  notify = (notification) => operator.notify(notification);

  let isListening = false;
  const metricsPort = await serveTelemetry(
    { host: loopback, port: config.METRICS_PORT, metrics, ready: () => isListening },
    stack,
  ).catch(portInUse('METRICS_PORT', config.METRICS_PORT));
  const metricsUrl = `http://${loopback}:${metricsPort}/metrics`;

  const gateway = createGateway({
    metricsUrl,
    client,
    namespace,
    caches: { ...caches, apiKeys: keyCache, ownerSettings: settingsCache },
    serviceCaches: { pools: caches.pools },
    keys,
    host: loopback,
    port: config.PORT,
    ...gatewaySettings(config),
    ...signIn,
    audit,
    ...webDirectories(programFolder, config),
    ...gitDirectory(config, credentials, runtime, stack),
    pullRequests,
    ...(archive === undefined ? {} : { history: archive.reader }),
    clock: runtime.clock,
    logger,
    metrics,
    version,
    defaultTemplateName: agents.templateName,
    ...sandboxOrigins(config, folder),
  });
  stack.defer(() => gateway.close());
  const { port } = await gateway.listen();
  isListening = true;

  const url = config.PUBLIC_URL ?? `http://${loopback}:${port}`;
  stack.defer(announceService(folder, { url, owner: config.OWNER }));
  const { clock } = runtime;
  process.stdout.write(
    banner({
      link: await createLoginLink({
        client,
        namespace,
        clock,
        url,
        owner: config.OWNER,
        role: 'admin',
        issuer: first.resource,
      }),
      linkCommand: `DATA_DIR=${[folder.path, process.execPath, join(programFolder, 'main.js')].map(shellQuote).join(' ')} login-link`,
      url,
      key: first.key,
      kubeconfig,
      metricsUrl,
      dataDir: folder.path,
      notes: await agents.notes(client, namespace),
      example: agents.example,
    }),
  );
  const signal = await stopped;
  logger.info('stopping', { signal });
}
