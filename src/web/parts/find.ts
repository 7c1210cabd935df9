export { Find, highlight } from '../components/find.tsx';
export { surroundingsIn } from '../hit.ts';
