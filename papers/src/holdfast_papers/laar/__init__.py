"""LAAR (EDBT'14), replication that follows the load.

FT-Search (section 4.5) is `ftsearch.py` (threads), `ftsearch_tree.py` (search tree) and `ftsearch_kernel.py` (`step`: the prunings
CPU, COMPL, COST and DOM, Figures 5 and 6). `dual_bounds.py` tightens its bounds; that is not in the paper. `holdfast plan --planner
ft-search` uses it where this package is installed.

`command.py` and the `variants` modules simulate six replication variants (Figures 9 to 12, findings of section 5.3). The `search`
modules run FT-Search over a corpus of applications (Figures 4 to 6, section 4.5). The `pipeline` modules run two PEs on real nodes
(Figure 3).
"""
