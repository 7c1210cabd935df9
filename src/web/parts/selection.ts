export { SelectionBar } from '../components/selection-bar.tsx';
