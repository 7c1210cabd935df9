/** The URL from which git clones the repository, below the base URL of its host. */
export function repositoryUrl(base: URL, repository: string): URL {
  const path = repository.split('/').map(encodeURIComponent).join('/');
  return new URL(`${base.pathname.replace(/\/+$/, '')}/${path}.git`, base);
}
