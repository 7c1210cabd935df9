import { commandEnvironment, loadSettings } from '../src/settings.ts';

const keyed = { OH_SESSION_API_KEYS_0: 'k' };

describe('the settings of the reference agent', () => {
  it.each([
    ['no key at all', [], {}, 'no session key'],
    [
      'deferred init without a bootstrap key',
      [],
      { OH_DEFERRED_INIT: 'true' },
      'OH_SECRET_KEY is required',
    ],
    ['a port that is none', ['--port', '70000'], keyed, 'port must be'],
    [
      'a text that is neither true nor false',
      [],
      { ...keyed, OH_DEFERRED_INIT: 'maybe' },
      'OH_DEFERRED_INIT must be',
    ],
    ['an unknown argument', ['--verbose'], keyed, 'verbose'],
  ])('are refused for %s', (_name, args, env, message) => {
    expect(() => loadSettings(args, env)).toThrow(message);
  });

  it('take arguments before the environment', () => {
    const settings = loadSettings(['--host', '127.0.0.2', '--port', '9000'], {
      ...keyed,
      HOST: '0.0.0.0',
      PORT: '1',
      OH_SESSION_API_KEYS_1: 'l',
    });
    expect(settings).toMatchObject({
      host: '127.0.0.2',
      port: 9000,
      sessionKeys: ['k', 'l'],
      deferredInit: false,
    });
  });

  it('keep keys away from commands', () => {
    const env = {
      PATH: '/bin',
      OH_SECRET_KEY: 's',
      OH_SESSION_API_KEYS_0: 'k',
      SESSION_API_KEY: 'k',
      LLM_API_KEY: 'l',
      ACP_ENV: '{"TOKEN":"t"}',
      LLM_MODEL: 'm',
    };
    expect(commandEnvironment(env)).toEqual({
      PATH: '/bin',
      LLM_MODEL: 'm',
      AI_AGENT: 'reference-agent',
    });
  });
});
