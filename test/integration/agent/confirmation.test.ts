import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { newUuid } from '@conversation-operator/base/uuid';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import {
  Delivery,
  requestPendingRun,
} from '../../../src/controllers/conversation/messages/delivery.ts';
import type { LaterMessage } from '../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { aConversation as testConversation } from '../../support/builders.ts';
import { AgentVolume, call, eventsOf, script } from './agent-process.ts';

const aConversation = (volume: AgentVolume, ...blocks: readonly string[]) => ({
  id: newUuid(Date.now()),
  workingDir: volume.workingDir,
  message: script(...blocks),
  confirmationPolicy: 'AlwaysConfirm' as const,
});

const respond = (endpoint: AgentEndpoint, id: string, answer: object) =>
  call(endpoint, `POST /api/conversations/${id}/events/respond_to_confirmation`, answer);

describe('a reference agent that confirms every action', () => {
  it('runs an action once it is accepted, in its shell, and asks for the next one', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const bash = '```bash\n[[ a == a ]] && echo first >> log\n```\n```sh\necho second >> log\n```';
    const wanted = {
      ...aConversation(volume),
      message: { content: [{ type: 'text' as const, text: bash }] },
    };
    await client.createConversation(endpoint, wanted);
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    // A pause of the sandbox has nothing to reject.
    expect(await client.losableQuestions(endpoint)).toEqual([]);
    expect(await client.conversation(endpoint, wanted.id)).toMatchObject({ keepsQuestions: true });
    expect(existsSync(join(workingDir, 'log'))).toBe(false);
    const [action] = await eventsOf(endpoint, wanted.id, 'sort_order=TIMESTAMP_DESC&limit=5').then(
      (events) => events.filter(({ kind }) => kind === 'ActionEvent'),
    );
    await respond(endpoint, wanted.id, { accept: true });
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('first\n');
    const results = (await eventsOf(endpoint, wanted.id)).filter(
      ({ kind }) => kind === 'ObservationEvent',
    );
    expect(results).toMatchObject([{ action_id: action?.id }]);
    await respond(endpoint, wanted.id, { accept: true });
    await volume.until(endpoint, wanted.id, 'finished');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('first\nsecond\n');
  });

  it('never runs a rejected action, and names it', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'touch never', 'touch neither');
    await client.createConversation(endpoint, wanted);
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    await client.rejectPending(endpoint, wanted.id, 'Not this one.');
    await volume.until(endpoint, wanted.id, 'idle');
    await respond(endpoint, wanted.id, { accept: true });
    expect((await client.conversation(endpoint, wanted.id))?.executionStatus).toBe('idle');
    await client.run(endpoint, wanted.id);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(existsSync(join(workingDir, 'never'))).toBe(false);
    expect(existsSync(join(workingDir, 'neither'))).toBe(false);
    const events = await eventsOf(endpoint, wanted.id);
    expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
      rejection_reason: 'Not this one.',
      tool_name: 'terminal',
    });
    const { body } = await call(
      endpoint,
      `GET /api/conversations/${wanted.id}/agent_final_response`,
    );
    expect(JSON.stringify(body)).toMatch(/Block 1 was rejected.*not run/);
  });

  it('runs no action that a message finds waiting, although the last report was older', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'echo approved >> log', 'echo dangerous >> log');
    await client.createConversation(endpoint, wanted);
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    const waiting = await client.conversation(endpoint, wanted.id);
    if (waiting === undefined) throw new Error('the agent has lost the conversation');
    await respond(endpoint, wanted.id, { accept: true });
    while (!existsSync(join(workingDir, 'log'))) await setImmediate();
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    const message: LaterMessage = {
      number: 1,
      id: 'm',
      role: 'user',
      run: true,
      content: [{ type: 'text', text: 'Please be careful.' }],
    };
    const signal = AbortSignal.timeout(60_000);
    const recipient = {
      endpoint,
      id: wanted.id,
      container: 'one',
      conversation: testConversation({ spec: { messages: [message] } }),
      // The poll has found the approved action under way.
      state: { ...waiting, executionStatus: 'running' as const },
      message: () => Promise.resolve(message),
      save: (status: ConversationStatus) => Promise.resolve(status),
      signal,
    };
    const options = {
      agent: client,
      clock: systemClock,
      logger: silentLogger,
      client: new FakeKubeClient(),
      events: { record: () => undefined },
    };
    const { status } = await new Delivery(options).deliver(recipient, {});
    const requested = await requestPendingRun(options, recipient, { status, signal });
    expect(requested.status.messages).toMatchObject({ lastDelivered: 1, runPending: true });
    await client.rejectPending(endpoint, wanted.id, 'Not this one.');
    await requestPendingRun(options, recipient, { status: requested.status, signal });
    await volume.until(endpoint, wanted.id, 'finished', 'waiting_for_confirmation');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('approved\n');
  });

  it('still asks after it was killed, and then runs the action once', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const first = await volume.startReady();
    const wanted = aConversation(volume, 'echo once >> log');
    await client.createConversation(first.endpoint, wanted);
    await volume.until(first.endpoint, wanted.id, 'waiting_for_confirmation');
    await first.stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    await volume.until(endpoint, wanted.id, 'waiting_for_confirmation');
    const answers = await Promise.all(
      [1, 2, 3].map(() => respond(endpoint, wanted.id, { accept: true })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('once\n');
  });
});
