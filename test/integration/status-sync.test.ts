import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import type { ExecutionStatus } from '../../src/resources/conversation-status.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { RestUser } from '../support/rest-user.ts';
import { SplitInstallation } from '../support/split-installation.ts';

const namespace = 'default';
/** Maximum time for work that takes a second on an idle machine. */
const patientMs = 120_000;
/** Longer than a busy machine stops a process for; an operator that is killed is followed later. */
const lease = {
  LEASE_DURATION_SECONDS: '6',
  LEASE_RENEW_DEADLINE_SECONDS: '5',
  LEASE_RETRY_PERIOD_SECONDS: '0.5',
};

describe('what agents do reaches the conversation', () => {
  let dataDir: string;
  let up: SplitInstallation;
  let user: RestUser;
  let transport: Transport;
  let client: HttpKubeClient;
  let notificationPorts: readonly number[];
  let waiting = 0;

  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-status-'));
    up = await SplitInstallation.start(dataDir);
    user = new RestUser(up);
    notificationPorts = [await freePort(), await freePort()];
    up.addOperator('one', { ...lease, METRICS_PORT: String(notificationPorts[0]) });
    const { connection } = await loadConnection({ kubeconfig: up.kubeconfig });
    transport = new Transport({
      connection,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
    });
    client = new HttpKubeClient({ transport });
  });
  afterAll(async () => {
    await transport.close();
    await up.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function aConversation(script: string): Promise<string> {
    const { id } = await user.start(`\`\`\`sh\n${script}\n\`\`\``);
    const task = await user.over(id, patientMs);
    return task.app_conversation_id ?? '';
  }

  /** A conversation whose agent runs the script once `go` is called. */
  async function aWaiting(script: string) {
    const go = join(dataDir, `go-${++waiting}`);
    const id = await aConversation(`while [ ! -e ${go} ]; do sleep 0.1; done; ${script}`);
    await reaches(id, 'running', patientMs);
    return { id, go: () => writeFileSync(go, '') };
  }

  /** Reads a conversation from the API server, because there may be no gateway. */
  const stored = (id: string) => client.get(conversations, namespace, id);
  const reaches = (id: string, status: ExecutionStatus, timeoutMs: number) =>
    eventually(
      `${id} ${status}`,
      async () => (await stored(id)).status?.executionStatus === status,
      timeoutMs,
    );

  /** Every version that is written while `work` runs, and the one that it ends with. */
  async function versionsDuring(
    id: string,
    work: () => Promise<unknown>,
  ): Promise<readonly Conversation[]> {
    const { resourceVersion } = await client.list(conversations, { namespace });
    const stop = new AbortController();
    const seen: Conversation[] = [];
    const watching = (async () => {
      try {
        for await (const event of client.watch(conversations, {
          namespace,
          resourceVersion,
          timeoutSeconds: 300,
          signal: stop.signal,
        }))
          if (event.type === 'MODIFIED' && event.object.metadata.name === id)
            seen.push(event.object);
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    })();
    await work();
    const { resourceVersion: last } = (await stored(id)).metadata;
    await eventually(`version ${last} of ${id}`, () =>
      seen.some(({ metadata }) => metadata.resourceVersion === last),
    );
    stop.abort();
    await watching;
    return seen;
  }

  it('by webhooks where polls are rare: a message that its owner sends straight to an idle agent', async () => {
    const id = await aConversation('echo first');
    await user.reaches(id, { execution_status: 'finished' }, patientMs);
    const { session_api_key: key, conversation_url: url } = await user.conversation(id);
    const post = await fetch(`${url ?? ''}/events`, {
      method: 'POST',
      headers: { 'X-Session-API-Key': key ?? '', 'Content-Type': 'application/json' },
      body: JSON.stringify({
        role: 'user',
        content: [{ type: 'text', text: '```sh\nsleep 600\n```' }],
        run: true,
      }),
    });
    expect(post.status).toBe(200);
    await reaches(id, 'running', patientMs);
  });

  it('one write for each change, and none in between', async () => {
    const { id, go } = await aWaiting('sleep 6; echo; sleep 6');
    const first = await stored(id);
    const seen = await versionsDuring(id, async () => {
      go();
      await reaches(id, 'finished', patientMs);
    });
    const [last, ...others] = [first, ...seen].reverse();
    expect(last?.status?.executionStatus).toBe('finished');
    for (const [index, version] of others.entries())
      expect(
        isDeepStrictEqual(version.status, (index === 0 ? last : others[index - 1])?.status),
      ).toBe(false);
    expect(seen.filter(({ status }) => status?.executionStatus === 'running')).toEqual([]);
  }, 300_000);

  it('by polls while the gateway is down, and by the gateway when it is back', async () => {
    const { id, go } = await aWaiting('true');
    await up.killGateway();
    go();
    await reaches(id, 'finished', patientMs);
    await up.startGateway();
    await user.reaches(id, { execution_status: 'finished' }, patientMs);
  }, 300_000);

  it('also when another operator has taken over', async () => {
    const { id, go } = await aWaiting('true');
    up.addOperator('two', { ...lease, METRICS_PORT: String(notificationPorts[1]) });
    await up.killOperator('one');
    go();
    await reaches(id, 'finished', patientMs);
    const again = await aConversation('echo more');
    await reaches(again, 'finished', patientMs);
  }, 300_000);
});
