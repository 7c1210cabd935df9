import { directly } from '@conversation-operator/outward/outward';
import {
  apiUrlOf,
  githubApiUrlOf,
  newHostApis,
} from '../../../../../src/gateway/git/host-api/host-apis.ts';

describe('the address of an API', () => {
  it.each<[string, string, Record<string, string>, string | undefined]>([
    ['github', 'https://github.com', {}, 'https://api.github.com/'],
    ['github', 'https://bot:s3cret@github.com/', {}, 'https://api.github.com/'],
    ['github', 'https://github.example', {}, 'https://github.example/api/v3'],
    ['github', 'http://github.example:8080/base/', {}, 'http://github.example:8080/base/api/v3'],
    ['gitlab', 'https://gitlab.com', {}, 'https://gitlab.com/api/v4'],
    ['gitlab', 'https://u:s3cret@host/gitlab?x#y', {}, 'https://host/gitlab/api/v4'],
    ['forgejo', 'http://forge:3000', {}, 'http://forge:3000/api/v1'],
    ['forgejo', 'http://forge:3000', { forgejo: 'http://api/v1?x' }, 'http://api/v1'],
    ['github', 'https://github.com', { github: 'http://127.0.0.1:1/' }, 'http://127.0.0.1:1/'],
    ['github', 'https://github.com', { gitlab: 'http://api' }, 'https://api.github.com/'],
    ['bitbucket', 'https://bitbucket.org', {}, undefined],
    ['bitbucket', 'https://bitbucket.org', { bitbucket: 'https://api' }, undefined],
    ['forgejo', 'file:///srv/git', {}, undefined],
    ['forgejo', 'file:///srv/git', { forgejo: 'http://api/v1' }, 'http://api/v1'],
  ])('of %s at %s with %j is %s', (provider, host, apiUrls, expected) => {
    const url = apiUrlOf(provider, { hosts: { [provider]: host }, apiUrls });
    expect(url?.href).toBe(expected);
  });

  it('of a provider of another name can be that of GitHub', () => {
    const urls = { hosts: { ghe: 'https://ghe.example' }, apiUrls: {} };
    expect(githubApiUrlOf('ghe', urls)?.href).toBe('https://ghe.example/api/v3');
    expect(apiUrlOf('ghe', urls)).toBeUndefined();
    expect(githubApiUrlOf('github', urls)).toBeUndefined();
  });
});

it('there are APIs of the configured providers alone', async () => {
  const hosts = { github: 'https://github.com', bitbucket: 'https://bitbucket.org' };
  const apis = newHostApis({
    outward: directly,
    hosts,
    apiUrls: { gitlab: 'https://gitlab.example/api/v4' },
  });
  expect(apis.of('github')).toBeDefined();
  for (const provider of ['gitlab', 'forgejo', 'bitbucket', 'constructor', '__proto__'])
    expect(apis.of(provider)).toBeUndefined();
  await apis.close();
});
