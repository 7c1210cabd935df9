import { conversations } from '../../../src/resources/conversation.ts';
import { dashedUuid, newUuid } from '@conversation-operator/base/uuid';
import { conversationIdOfStartTask } from '../../../src/resources/ids.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../src/status/sandbox-phase.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';
import { unknownOutcomes } from '../../support/unknown-outcomes.ts';

const path = '/api/v1/app-conversations';
const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
const withText = (text: unknown) => ({ initial_message: { content: [{ type: 'text', text }] } });
const freshId = () => newUuid(Date.now());

describe('starting a conversation', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => {
    gateway.client.fault = () => undefined;
  });
  afterAll(() => gateway.stop());

  const start = (body: unknown, key = gateway.alice) => gateway.post(path, body, { key });
  const idOf = (answer: Answer) => conversationIdOfStartTask((answer.json as { id: string }).id);
  const stored = (answer: Answer) => gateway.client.get(conversations, namespace, idOf(answer));

  it('answers with a start task that is WORKING and stores a conversation of the owner', async () => {
    const answer = await start(hello);
    expect(answer).toMatchObject({
      status: 200,
      json: {
        status: 'WORKING',
        app_conversation_id: null,
        sandbox_id: null,
        error: null,
        created_by_user_id: 'alice',
      },
    });
    expect((await stored(answer)).spec).toEqual({
      owner: 'alice',
      templateName: 'default',
      initialMessage: { role: 'user', content: [{ type: 'text', text: 'Hello' }], run: true },
    });
  });

  it('stores everything that was asked for', async () => {
    const parent = await gateway.addConversation(freshId());
    const asked = {
      initial_message: {
        role: 'user',
        content: [
          { type: 'text', text: 'Read' },
          { type: 'image', image_urls: ['https://x/y.png'] },
        ],
        run: false,
      },
      selected_repository: 'acme/shop',
      selected_branch: 'feature/x',
      git_provider: 'github',
      title: 'Shop',
      sandbox_spec_id: 'default',
      parent_conversation_id: dashedUuid(parent.metadata.name),
      llm_model: 'some/model',
      system_message_suffix: 'Be brief.',
      trigger: 'gui',
      pr_number: [7],
      public: true,
      agent_type: 'plan',
      tools: ['terminal', 'file_editor'],
      confirmation_policy: 'ConfirmRisky',
    };
    const answer = await start(asked);
    expect(answer).toMatchObject({
      status: 200,
      json: { request: { ...asked, parent_conversation_id: parent.metadata.name } },
    });
    expect((await stored(answer)).spec).toEqual({
      owner: 'alice',
      templateName: 'default',
      title: 'Shop',
      initialMessage: {
        role: 'user',
        content: [
          { type: 'text', text: 'Read' },
          { type: 'image', imageUrls: ['https://x/y.png'] },
        ],
        run: false,
      },
      repository: { name: 'acme/shop', branch: 'feature/x', provider: 'github' },
      agent: {
        type: 'plan',
        model: 'some/model',
        systemMessageSuffix: 'Be brief.',
        tools: ['terminal', 'file_editor'],
        confirmationPolicy: 'ConfirmRisky',
      },
      parent: parent.metadata.name,
      trigger: 'gui',
      prNumbers: [7],
      public: true,
    });
  });

  describe('accepts', () => {
    it.each<[string, unknown]>([
      ['an explicit null for the message', { initial_message: null }],
      [
        'null for every optional field, as the official web UI sends them',
        {
          ...hello,
          title: null,
          selected_repository: null,
          selected_branch: null,
          git_provider: null,
          plugins: null,
          parent_conversation_id: null,
          sandbox_id: null,
          sandbox_spec_id: null,
          agent_profile_id: null,
          conversation_id: null,
          llm_model: null,
          system_message_suffix: null,
          pr_number: null,
          public: null,
          agent_type: null,
          tools: null,
          confirmation_policy: null,
          trigger: 'gui',
        },
      ],
      [
        'null for the role and run of a message',
        { initial_message: { role: null, run: null, content: [{ type: 'text', text: 'x' }] } },
      ],
      ['exactly 256 KiB of text', withText('x'.repeat(256 * 1024))],
      ['an agent without tools', { ...hello, tools: [] }],
      ['a title of 200', { ...hello, title: 'x'.repeat(200) }],
      ['a repository in a group of groups', { ...hello, selected_repository: 'group/sub/project' }],
      ['a repository with dots', { ...hello, selected_repository: '.github/x.y_z-1' }],
      ['text in any script', withText('こんにちは 🙂 \u0000 \ud800')],
    ])('%s', async (_case, body) => {
      expect(await start(body)).toMatchObject({ status: 200, json: { status: 'WORKING' } });
    });
  });

  describe('refuses with 422 and the place of the mistake', () => {
    it.each<[string, unknown, string]>([
      ['no message', {}, 'body.initial_message'],
      ['a list instead of an object', [], 'body'],
      ['a message that is a text', { initial_message: 'Hello' }, 'body.initial_message'],
      ['no content', { initial_message: {} }, 'body.initial_message.content'],
      ['empty content', { initial_message: { content: [] } }, 'body.initial_message.content'],
      ['empty text', withText(''), 'body.initial_message.content[0].text'],
      ['no text', withText(undefined), 'body.initial_message.content[0].text'],
      ['a number for a text', withText(7), 'body.initial_message.content[0].text'],
      [
        'more than 256 KiB of text',
        withText('x'.repeat(256 * 1024 + 1)),
        'body.initial_message.content',
      ],
      [
        'more than 256 KiB in bytes',
        withText('é'.repeat(128 * 1024 + 1)),
        'body.initial_message.content',
      ],
      [
        'more than 256 KiB over several parts',
        {
          initial_message: {
            content: [1, 2].map(() => ({ type: 'text', text: 'x'.repeat(200_000) })),
          },
        },
        'body.initial_message.content',
      ],
      [
        'an unknown type of content',
        { initial_message: { content: [{ type: 'video' }] } },
        'body.initial_message.content[0].type',
      ],
      [
        'an image without URLs',
        { initial_message: { content: [{ type: 'image', image_urls: [] }] } },
        'body.initial_message.content[0].image_urls',
      ],
      [
        'an unknown role',
        { initial_message: { role: 'robot', content: [{ type: 'text', text: 'x' }] } },
        'body.initial_message.role',
      ],
      [
        'a run that is no truth value',
        { initial_message: { run: 'yes', content: [{ type: 'text', text: 'x' }] } },
        'body.initial_message.run',
      ],
      [
        'a repository without owner',
        { ...hello, selected_repository: 'shop' },
        'body.selected_repository',
      ],
      [
        'a repository as a URL',
        { ...hello, selected_repository: 'https://github.com/acme/shop' },
        'body.selected_repository',
      ],
      [
        'a repository that climbs',
        { ...hello, selected_repository: '../shop' },
        'body.selected_repository',
      ],
      [
        'a repository that climbs later',
        { ...hello, selected_repository: 'acme/..' },
        'body.selected_repository',
      ],
      [
        'a repository that is an option',
        { ...hello, selected_repository: '-c/shop' },
        'body.selected_repository',
      ],
      ['an empty repository', { ...hello, selected_repository: '' }, 'body.selected_repository'],
      [
        'a branch that is an option',
        { ...hello, selected_branch: '--upload-pack=x' },
        'body.selected_branch',
      ],
      ['an unknown git provider', { ...hello, git_provider: 'sourceforge' }, 'body.git_provider'],
      ['a title of 201', { ...hello, title: 'x'.repeat(201) }, 'body.title'],
      ['an id that is no UUID', { ...hello, conversation_id: 'abc' }, 'body.conversation_id'],
      [
        'a parent that is no UUID',
        { ...hello, parent_conversation_id: '7' },
        'body.parent_conversation_id',
      ],
      [
        'pull request numbers that are none',
        { ...hello, pr_number: ['7', 0] },
        'body.pr_number[0]',
      ],
      ['tools that are a text', { ...hello, tools: 'terminal' }, 'body.tools'],
      ['a tool that can be none', { ...hello, tools: ['terminal', 'rm -rf /'] }, 'body.tools[1]'],
      [
        'more than 64 tools',
        { ...hello, tools: Array.from({ length: 65 }, () => 'terminal') },
        'body.tools',
      ],
      [
        'an unknown confirmation policy',
        { ...hello, confirmation_policy: 'Sometimes' },
        'body.confirmation_policy',
      ],
      [
        'a confirmation policy as an object',
        { ...hello, confirmation_policy: { kind: 'AlwaysConfirm' } },
        'body.confirmation_policy',
      ],
      ['a public flag that is a text', { ...hello, public: 'true' }, 'body.public'],
    ])('%s', async (_case, body, place) => {
      const answer = await start(body);
      expect(answer).toMatchObject({ status: 422, json: { code: 'invalid-request' } });
      const { errors, detail } = answer.json as {
        errors: { path: string; message: string }[];
        detail: string;
      };
      expect(errors.map((error) => error.path)).toContain(place);
      expect(detail).toContain(`${errors[0]?.path ?? ''} ${errors[0]?.message ?? ''}`);
    });

    it('all mistakes at once', async () => {
      const { json } = await start({
        initial_message: { content: [{ type: 'text', text: '' }] },
        title: 7,
        selected_repository: 'x',
      });
      expect((json as { errors: object[] }).errors).toEqual([
        { path: 'body.initial_message.content[0].text', message: 'must not be empty' },
        { path: 'body.selected_repository', message: 'must be in owner/name form' },
        { path: 'body.title', message: 'must be a string' },
      ]);
    });
  });

  describe('with an id that the client chose', () => {
    it('gives the same start task again for an equal request, however it is written', async () => {
      const id = freshId();
      const first = await start({ conversation_id: id, ...hello, title: 'T' });
      const again = await start({
        title: 'T',
        initial_message: { run: true, content: [{ text: 'Hello', type: 'text' }], role: 'user' },
        conversation_id: dashedUuid(id).toUpperCase(),
      });
      expect(again.status).toBe(200);
      expect(again.json).toEqual(first.json);
      expect(idOf(first)).toBe(id);
      expect((first.json as { request: object }).request).toMatchObject({ conversation_id: id });
    });

    it('refuses another request with 409', async () => {
      const id = freshId();
      await start({ conversation_id: id, ...hello });
      expect(await start({ conversation_id: id, ...withText('Other') })).toMatchObject({
        status: 409,
        json: { code: 'conversation-id-taken' },
      });
    });

    it('refuses the id of someone else with 409', async () => {
      const id = freshId();
      await start({ conversation_id: id, ...hello });
      expect(await start({ conversation_id: id, ...hello }, gateway.bob)).toMatchObject({
        status: 409,
        json: { code: 'conversation-id-taken' },
      });
    });

    it('starts once when the same request comes ten times at once', async () => {
      const id = freshId();
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => start({ conversation_id: id, ...hello })),
      );
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      expect(answers[0]?.status).toBe(200);
    });
  });

  describe('by reference', () => {
    it('joins a sandbox of the same owner and takes its template', async () => {
      await gateway.addSandbox('sbx-joined');
      const answer = await start({ ...hello, sandbox_id: 'sbx-joined' });
      expect((await stored(answer)).spec).toMatchObject({
        sandboxName: 'sbx-joined',
        templateName: 'default',
      });
    });

    it('resumes a sandbox that has failed after it had run, before its operator sees the start', async () => {
      const is = {
        type: 'Failed',
        status: 'True' as const,
        reason: 'CrashLoop',
        message: 'It crashes.',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      };
      await gateway.addSandbox('sbx-crashed', {
        status: { lastContainerID: 'process://1', conditions: [is] },
      });
      const { client } = gateway;
      const create = client.create.bind(client);
      const seen: (string | undefined)[] = [];
      Object.assign(client, {
        create: async (...parameters: Parameters<typeof create>) => {
          seen.push(viewOfSandbox(await client.get(sandboxes, namespace, 'sbx-crashed')).phase);
          return create(...parameters);
        },
      });
      expect(await start({ ...hello, sandbox_id: 'sbx-crashed' })).toMatchObject({ status: 200 });
      Object.assign(client, { create });
      expect(seen).toEqual(['STARTING']);
    });

    it.each<[string, object, number]>([
      ['an unknown sandbox', { sandbox_id: 'sbx-nowhere' }, 404],
      ['what can not be a sandbox', { sandbox_id: '../../secrets/x' }, 404],
      ['the sandbox of someone else', { sandbox_id: 'sbx-of-bob' }, 404],
      ['a failed sandbox', { sandbox_id: 'sbx-failed' }, 409],
      ['an unknown sandbox spec', { sandbox_spec_id: 'huge' }, 404],
      ['what can not be a sandbox spec', { sandbox_spec_id: 'ghcr.io/Some/Image:1' }, 404],
      ['an unknown parent', { parent_conversation_id: freshId() }, 404],
    ])('refuses %s', async (_case, fields, status) => {
      if ((await gateway.get('/api/v1/sandboxes?id=sbx-failed')).text === '[null]') {
        await gateway.addSandbox('sbx-of-bob', { owner: 'bob' });
        await gateway.addSandbox('sbx-failed', {
          status: {
            conditions: [
              {
                type: 'Failed',
                status: 'True',
                reason: 'CrashLoop',
                message: 'It crashes.',
                lastTransitionTime: '2026-01-01T00:00:00Z',
              },
            ],
          },
        });
      }
      expect(await start({ ...hello, ...fields })).toMatchObject({ status });
    });
  });

  describe('with a model', () => {
    const withAgent = async (name: string, agent: object) => {
      const { spec } = await gateway.client.get(sandboxTemplates, namespace, 'default');
      const made = await gateway.client.create(sandboxTemplates, {
        apiVersion,
        kind: 'SandboxTemplate',
        metadata: { namespace, name },
        spec: { ...spec, agent: { ...spec.agent, ...agent } },
      });
      await gateway.seen(gateway.caches.templates, made);
    };
    beforeAll(async () => {
      await withAgent('keyed', {
        model: 'openai/m',
        baseUrl: 'https://models.example/v1',
        credential: 'openai',
      });
      await withAgent('listed', { allowedModels: ['openai/gpt-5*'] });
    });

    it.each<[string, string, number]>([
      ['keyed', 'openai/m', 200],
      ['keyed', 'openai/other', 200],
      ['keyed', 'huggingface/m', 422],
      ['listed', 'openai/gpt-5-mini', 200],
      ['listed', 'openai/gpt-4', 422],
      ['default', 'some/model', 200],
      ['default', 'huggingface/https://models.example', 422],
      ['default', 'openai/m@models.example', 422],
      ['default', 'openai/ m', 422],
    ])('of the sandbox spec %s: %s gets %i', async (spec, model, status) => {
      const answer = await start({ ...hello, sandbox_spec_id: spec, llm_model: model });
      expect(answer.status).toBe(status);
      if (status === 422)
        expect(answer.json).toMatchObject({
          code: 'model-not-allowed',
          errors: [{ path: 'body.llm_model' }],
        });
    });

    it('is refused in a sandbox that is joined, too', async () => {
      await gateway.client.create(sandboxes, {
        apiVersion,
        kind: 'Sandbox',
        metadata: { namespace, name: 'sbx-listed' },
        spec: { owner: 'alice', templateName: 'listed', replicas: 1 },
      });
      expect(
        await start({ ...hello, sandbox_id: 'sbx-listed', llm_model: 'openai/gpt-4' }),
      ).toMatchObject({ status: 422 });
    });
  });

  describe.each(unknownOutcomes)('when a write ends with %s', (_sentence, errorOf) => {
    const lose = (stage: 'before' | 'after') => {
      const create = gateway.client.create.bind(gateway.client);
      const { client } = gateway;
      Object.assign(client, {
        create: async (...parameters: Parameters<typeof create>) => {
          Object.assign(client, { create });
          if (stage === 'after') await create(...parameters);
          throw errorOf();
        },
      });
    };

    it('counts a create as done that was executed all the same', async () => {
      lose('after');
      expect(await start(hello)).toMatchObject({ status: 200, json: { status: 'WORKING' } });
    });

    it('says 503 with Retry-After when it was not', async () => {
      lose('before');
      const answer = await start(hello);
      expect(answer).toMatchObject({ status: 503, json: { code: 'unavailable' } });
      expect(answer.headers['retry-after']).toBe('1');
      expect(answer.text).not.toMatch(/socket|etcd|timed out/);
    });
  });

  it('is in the audit with who, what and the outcome, without the message', async () => {
    const secret = 'an unmistakable text';
    const answer = await start(withText(secret));
    const line = gateway.log.findLast(({ message }) => message === 'Write');
    expect(line).toMatchObject({
      level: 'info',
      fields: {
        action: 'startConversation',
        owner: 'alice',
        target: `conversation/${idOf(answer)}`,
        outcome: 'ok',
        requestId: answer.headers['x-request-id'],
      },
    });
    expect(JSON.stringify(gateway.log)).not.toContain(secret);
  });
});
