import type { AgentClient, AgentConversation, AgentLlm } from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import { AgentConfigurations } from '../../../../../src/controllers/conversation/agent-configuration.ts';
import { KeyRotation } from '../../../../../src/controllers/conversation/execution/run-control.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import type { SandboxTemplate } from '../../../../../src/resources/sandbox-template.ts';
import { SandboxKeys } from '../../../../../src/agent/keys.ts';
import { modelRelayAccessOf } from '../../../../../src/agent/model-relay.ts';
import type { AgentConfigurationsOptions } from '../../../../../src/controllers/conversation/agent-configuration.ts';
import type { SandboxTemplateSpec } from '../../../../../src/resources/sandbox-template.ts';
import { aConversation, aSandbox, aTemplate } from '../../../../support/builders.ts';

const llm = { model: 'openai/m', baseUrl: 'https://models.example/v1' };
const refused: ConversationStatus = {
  executionStatus: 'error',
  executionDetail: 'LLMAuthenticationError: Your LLM API key appears to be …',
};

const keys = new SandboxKeys([Buffer.alloc(32, 1)]);
const sandbox = aSandbox({ name: 'one' });

type BenchOptions = Pick<AgentConfigurationsOptions, 'agentSide'> &
  Pick<SandboxTemplateSpec, 'models'>;

/** An operator whose key can change, and an agent that remembers what it was given. */
class Bench {
  key: string | undefined = 'first-key';
  readonly given: AgentLlm[] = [];
  failure: AgentError | undefined;
  readonly #rotation: KeyRotation;

  constructor({ agentSide, models }: BenchOptions = {}) {
    const templates = new IndexedStore<SandboxTemplate>();
    templates.set(
      aTemplate({
        agent: { workingDir: '/workspace', ...llm, credential: 'openai' },
        ...(models === undefined ? {} : { models }),
      }),
    );
    const configurations = new AgentConfigurations({
      credentials: { of: () => Promise.resolve(this.key) },
      keys,
      agentSide,
      stores: { templates },
      ownerSettings: { secretsOf: () => Promise.resolve([]) },
    });
    const agent: Pick<AgentClient, 'useLlm'> = {
      useLlm: (_endpoint, _id, given) => {
        if (this.failure !== undefined) return Promise.reject(this.failure);
        this.given.push(given);
        return Promise.resolve();
      },
    };
    this.#rotation = new KeyRotation({ agent: agent as AgentClient, configurations });
  }

  poll(
    status: ConversationStatus = refused,
    state: Partial<AgentConversation> = {},
    { name = 'one', uid = name }: { readonly name?: string; readonly uid?: string } = {},
  ): Promise<void> {
    const seen: AgentConversation = { ...({ id: 'c1', llm } as AgentConversation), ...state };
    const conversation = aConversation({ name, status });
    return this.#rotation.rotate(
      { ...conversation, metadata: { ...conversation.metadata, uid } },
      { state: seen, endpoint: { baseUrl: 'http://agent', sessionKey: 's' }, sandbox },
      new AbortController().signal,
    );
  }
}

it('a conversation whose key was refused is given the present one, once, and each new one after it', async () => {
  const bench = new Bench();
  await bench.poll();
  await bench.poll();
  expect(bench.given).toEqual([{ ...llm, apiKey: 'first-key' }]);
  bench.key = 'second-key';
  await bench.poll();
  await bench.poll();
  expect(bench.given.map(({ apiKey }) => apiKey)).toEqual(['first-key', 'second-key']);
});

it('each conversation is given it, also one that is made again under the name', async () => {
  const bench = new Bench();
  for (const which of [{ name: 'one' }, { name: 'two' }, { name: 'one', uid: 'again' }]) {
    await bench.poll(refused, {}, which);
    await bench.poll(refused, {}, which);
  }
  expect(bench.given).toHaveLength(3);
});

it.each<[string, ConversationStatus, Partial<AgentConversation>]>([
  ['that runs', { ...refused, executionStatus: 'running' }, {}],
  [
    'whose error is another',
    { executionStatus: 'error', executionDetail: 'MaxIterationsReached: …' },
    {},
  ],
  ['that a person has set to another model', refused, { llm: { ...llm, model: 'openai/mine' } }],
  [
    'that a person has sent elsewhere',
    refused,
    { llm: { ...llm, baseUrl: 'https://mine.example' } },
  ],
  ['of which the agent does not say what it works with', refused, { llm: undefined }],
])('a conversation %s is given none', async (_name, status, state) => {
  const bench = new Bench();
  await bench.poll(status, state);
  expect(bench.given).toEqual([]);
});

it('nothing is given where there is no key any more', async () => {
  const bench = new Bench();
  bench.key = undefined;
  await bench.poll();
  expect(bench.given).toEqual([]);
});

it('it is tried again where the agent could not be reached, and not where it does not know how', async () => {
  const bench = new Bench();
  bench.failure = new AgentError('unreachable', '');
  await expect(bench.poll()).rejects.toThrow(AgentError);
  bench.failure = new AgentError('not-found', '');
  await bench.poll();
  bench.failure = undefined;
  await bench.poll();
  expect(bench.given).toEqual([]);
});

describe('with a relay for models', () => {
  const conversation = aConversation({ name: 'one' });
  const agentSide = { url: 'http://callback.example', namespace: conversation.metadata.namespace };
  const access = modelRelayAccessOf({ conversation, sandbox }, { url: agentSide.url, keys });
  const relayed = { model: llm.model, baseUrl: access.baseUrl, apiKey: access.token };

  it('a conversation that has its key since before the relay is given the relay when the key is refused', async () => {
    const bench = new Bench({ agentSide });
    await bench.poll();
    await bench.poll();
    expect(bench.given).toEqual([relayed]);
  });

  it('a new key is not sent, because the relay has it', async () => {
    const bench = new Bench({ agentSide });
    const state = { llm: { model: relayed.model, baseUrl: relayed.baseUrl } };
    await bench.poll(refused, state);
    bench.key = 'second-key';
    await bench.poll(refused, state);
    expect(bench.given).toEqual([relayed]);
  });

  it('a conversation at the relay is given the key when its template stops using the relay', async () => {
    const bench = new Bench({ agentSide, models: { relay: false } });
    await bench.poll(refused, { llm: { model: relayed.model, baseUrl: relayed.baseUrl } });
    expect(bench.given).toEqual([{ ...llm, apiKey: 'first-key' }]);
  });

  it('a conversation that a person has sent elsewhere is given nothing', async () => {
    const bench = new Bench({ agentSide });
    await bench.poll(refused, { llm: { ...llm, baseUrl: `${access.baseUrl}/more` } });
    expect(bench.given).toEqual([]);
  });
});
