import { neededOwner, ownerInKubeconfig } from '../../../src/plugin/owner.ts';

const kubeconfig = (extension: string) => `
contexts:
  - name: work
    context: {cluster: c, user: u}
  - name: home
    context:
      cluster: c
      user: u
      extensions:
        - name: minikube
          extension: {owner: minikube}
        - name: conversation-operator.dev
          extension: ${extension}
`;

it.each([
  ['the extension of the context', 'home', '{owner: alice}', 'alice'],
  ['nobody by another context', 'work', '{owner: alice}', undefined],
  ['nobody by an unknown context', 'none', '{owner: alice}', undefined],
  ['nobody by another form', 'home', '[alice]', undefined],
])('a kubeconfig names %s', (_name, context, extension, owner) => {
  expect(ownerInKubeconfig(kubeconfig(extension), context)).toBe(owner);
});

it.each(['', 'contexts: 3', '[]'])('a kubeconfig of the form %j names nobody', (text) => {
  expect(ownerInKubeconfig(text, 'home')).toBeUndefined();
});

it.each(['', '-a', 'a b', 'x'.repeat(129)])(
  'the owner %.5j is refused with what is allowed',
  async (owner) => {
    await expect(neededOwner({ owner }, '')).rejects.toThrow(
      `--owner: '${owner}' must have 1 to 128 letters, digits or -_.@+: and begin and end with a letter or digit`,
    );
  },
);
