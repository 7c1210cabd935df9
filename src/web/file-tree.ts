const order = new Intl.Collator('en', { numeric: true });

export interface FolderContent {
  readonly folders: readonly string[];
  readonly files: readonly string[];
}

/** The direct content of one folder; '' is the root. Deeper folders are not read. */
export function contentOf(paths: readonly string[], folder: string): FolderContent {
  const start = folder === '' ? '' : `${folder}/`;
  const folders = new Set<string>();
  const files: string[] = [];
  for (const path of paths) {
    if (!path.startsWith(start)) continue;
    const end = path.indexOf('/', start.length);
    if (end < 0) files.push(path.slice(start.length));
    else folders.add(path.slice(start.length, end));
  }
  const { compare } = order;
  return { folders: [...folders].sort(compare), files: files.sort(compare) };
}

/** Paths that contain all words of a text, shortest first. */
export function matchingPaths(
  paths: readonly string[],
  text: string,
  limit: number,
): readonly string[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return paths
    .filter((path) => words.every((word) => path.toLowerCase().includes(word)))
    .sort((one, other) => one.length - other.length || order.compare(one, other))
    .slice(0, limit);
}
