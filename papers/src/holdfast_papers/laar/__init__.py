"""LAAR (EDBT'14), replication that follows the load.

`command.py` and the `variants` modules simulate six replication variants (Figures 9 to 12, findings of section 5.3). The `search`
modules run FT-Search over a corpus of applications (Figures 4 to 6, section 4.5). The `pipeline` modules run two PEs on real nodes
(Figure 3).
"""
